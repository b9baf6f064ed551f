//! The number of published waits, and how it slows their searches down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The number of published waits from which on each of them is published half as often.
const MANY: usize = 256;

/// The number of waits that may continue a long walk four times in a heartbeat. If there are more, each pauses longer.
const WALKERS: usize = 4;

/// The number of published waits of one `Locks`.
#[derive(Debug, Default)]
pub(super) struct PublishedCount(AtomicUsize);

impl PublishedCount {
    pub(super) fn enter(self: &Arc<Self>) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// The pause of a walk after a limited number of lookups. However many waits walk, together they make the same
    /// number of lookups in a heartbeat.
    pub(super) fn pause(&self, heartbeat: Duration) -> Duration {
        let walkers = self.0.load(Ordering::Relaxed).div_ceil(WALKERS);
        let walkers = u32::try_from(walkers).unwrap_or(u32::MAX).max(1);
        (heartbeat / 4).saturating_mul(walkers)
    }
}

/// One published wait.
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
