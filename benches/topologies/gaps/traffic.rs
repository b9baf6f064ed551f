//! A loop that acquires and releases a lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::support::eventually;
use reentry::Locks;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::PATIENCE;

/// The pause between two sections, so that the loop leaves time to the servers. It is part of each gap.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Seen {
    /// The beginnings of the sections that ended without an error. The release may continue in the background.
    entered: Vec<Instant>,
    failed: usize,
}

fn note(seen: &Mutex<Seen>, entered: Option<Instant>) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.failed += usize::from(entered.is_none());
    seen.entered.extend(entered);
}

/// The loop.
#[derive(Debug)]
pub(super) struct Traffic {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Traffic {
    pub(super) fn start(locks: &Locks, key: String) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let (noted, locks) = (Arc::clone(&seen), locks.clone());
        let task = tokio::spawn(async move {
            loop {
                let section = locks.with_lock(&key, async { Instant::now() });
                note(&noted, section.await.ok());
                sleep(PAUSE).await;
            }
        });
        Self { seen, task }
    }

    /// Waits until a section has begun after this time, and ended.
    pub(super) async fn until_section_after(&self, time: Instant) {
        let is_later = async || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entered.last().is_some_and(|&last| last > time)
        };
        eventually(PATIENCE, "a section after the fault", is_later).await;
    }

    /// The beginnings of the sections that ended without an error, and the number of failed sections.
    pub(super) async fn end(self) -> (Vec<Instant>, usize) {
        self.task.abort();
        let _ = self.task.await;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut seen.entered), seen.failed)
    }
}
