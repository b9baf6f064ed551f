//! How many waits are published, and how that slows their searches down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// From so many published waits on each of them is published half as often.
const MANY: usize = 256;

/// How many waits may go on with a long walk four times in a heartbeat. Of more each waits longer.
const WALKERS: usize = 4;

/// How many waits of one `Locks` are published.
#[derive(Debug, Default)]
pub(super) struct PublishedCount(AtomicUsize);

impl PublishedCount {
    pub(super) fn enter(self: &Arc<Self>) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// How long a walk pauses after so many looks: however many walk, they take as many looks in a heartbeat.
    pub(super) fn pause(&self, heartbeat: Duration) -> Duration {
        let walkers = self.0.load(Ordering::Relaxed).div_ceil(WALKERS);
        let walkers = u32::try_from(walkers).unwrap_or(u32::MAX).max(1);
        (heartbeat / 4).saturating_mul(walkers)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Counted(Arc<PublishedCount>);

impl Counted {
    pub(super) fn are_many(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) > MANY
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
