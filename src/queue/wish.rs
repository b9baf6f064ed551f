//! What callers want, and what the store is asked for them.

use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::store::{AcquireRequest, ShareRequest};

/// What a caller wants.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Wish {
    pub(super) request: AcquireRequest,
    pub(super) mode: Mode,
    /// With how many holders at most it shares the lock.
    pub(super) limit: Option<u32>,
    /// Whether it goes before those who want the lock in the other mode.
    pub(super) is_preferred: bool,
    /// Whether it waits for no more than the request in flight.
    pub(super) asks_once: bool,
    /// Whether it may go on with the hold of another one.
    pub(super) may_inherit: bool,
}

/// What is asked for the first waiter of a line, or for the readers that are first.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire(AcquireRequest),
    Share(ShareRequest),
}

impl Wish {
    /// The request for this caller alone; or, of a reader, for it and those who enter with it.
    pub(super) fn ask(self, holds: impl FnOnce() -> Vec<HoldId>) -> Ask {
        let AcquireRequest { ttl, entry, .. } = self.request;
        match self.mode {
            Mode::Exclusive => Ask::Acquire(self.request),
            Mode::Shared => Ask::Share(ShareRequest {
                holds: holds(),
                ttl,
                limit: self.limit,
                passes: self.is_preferred,
                entry,
            }),
        }
    }
}
