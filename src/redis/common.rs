//! The state that the connectors of one store share, above all its generation.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::watch;

use super::source::Timeouts;

/// The state that the connectors of one store share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) timeouts: Timeouts,
    /// Whether this process describes itself to the servers.
    pub(crate) introduces: Arc<AtomicBool>,
    pub(crate) generation: Generation,
    /// Counts the connections for commands that were opened.
    pub(crate) made: watch::Sender<u64>,
}

impl Common {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            introduces: Arc::default(),
            generation: Generation::default(),
            made: watch::Sender::new(0),
        }
    }
}

/// A number that changes whenever a connection was up and no longer is, or a slot has moved. What a server said before,
/// that it has a lock, or what its clock shows, may no longer hold.
#[derive(Clone, Default)]
pub(crate) struct Generation {
    number: Arc<AtomicU64>,
    changes: watch::Sender<u64>,
}

impl Generation {
    pub(crate) fn number(&self) -> u64 {
        self.number.load(SeqCst)
    }

    /// Begins the next one. The mutex of what has changed is locked, so the change is not seen with the old number.
    pub(crate) fn begin(&self) {
        self.number.fetch_add(1, SeqCst);
    }

    /// Wakes those who watch it, after the mutex was released.
    pub(crate) fn announce(&self) {
        self.changes.send_replace(self.number());
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
