//! The description of an acquisition that may be part of a deadlock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::searches::Searches;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::hold::hold::Hold;
use crate::hold::scope::{self, LocksId};
use crate::queue::LocalQueues;
use crate::store::records::{EnclosedWait, Enclosing};

/// The maximum number of enclosing holds of one call that are published. If there are more, the outermost are omitted.
const ENCLOSING: usize = 256;

/// An acquisition that may be part of a deadlock.
pub(crate) struct Waiting<'a> {
    pub(crate) locks: &'a LocksId,
    pub(crate) key: &'a LockKey,
    /// The id of the hold that it will have.
    pub(crate) hold: HoldId,
    /// Further holds that end after it, which an acquisition of several keys already has.
    pub(crate) has: &'a [Arc<Hold>],
    /// The holds around the whole process, beginning with the outermost. Another process has acquired them, and waits
    /// for the end of this one.
    pub(crate) inside: &'a [Enclosing],
    pub(crate) heartbeat: Duration,
    /// The instant at which it began.
    pub(crate) since: Instant,
    pub(crate) queues: &'a Arc<LocalQueues>,
    pub(crate) searches: &'a Arc<Searches>,
    /// The runtime for the work that outlives it.
    pub(crate) runtime: &'a Handle,
    /// Whether a failure of the search was reported.
    pub(crate) has_reported: AtomicBool,
}

impl Waiting<'_> {
    /// Reports the first failure of the search. Returns whether the store rejects the requests permanently.
    pub(super) fn has_refused(&self, error: &StoreError) -> bool {
        if !self.has_reported.swap(true, Ordering::Relaxed) {
            events::deadlock_search_failed(self.key, self.hold, error);
        }
        error.is_refused()
    }

    /// The holds that enclose the present poll in this process, and those that the acquisition already has.
    fn enclosing(&self) -> Vec<Arc<Hold>> {
        let mut holds = scope::enclosing_holds(self.locks, ENCLOSING);
        let is_new = |hold: &&Arc<Hold>| !holds.iter().any(|known| Arc::ptr_eq(known, hold));
        let has: Vec<_> = self.has.iter().filter(is_new).map(Arc::clone).collect();
        holds.splice(..0, has);
        holds
    }

    /// Makes it give way as the victim: its locks go to the waiters behind them, and not to itself when it tries again.
    pub(super) fn give_way(&self) {
        self.enclosing().iter().for_each(|hold| hold.give_way());
    }

    /// The wait that is published for it. `None` if nothing encloses it.
    pub(super) fn wait(&self) -> Option<EnclosedWait> {
        let holds = self.enclosing();
        let own = holds.iter().map(|hold| Enclosing {
            hold: hold.id(),
            key: hold.key().as_str().into(),
        });
        let inside = self.inside.iter().rev().cloned();
        let enclosing: Vec<_> = own.chain(inside).take(ENCLOSING).collect();
        (!enclosing.is_empty()).then(|| EnclosedWait {
            id: self.hold,
            key: self.key.as_str().into(),
            enclosing,
        })
    }
}

impl fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("key", &self.key)
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
