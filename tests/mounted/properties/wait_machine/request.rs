//! The requests of which one is in flight at a time.

use crate::base::id::HoldId;
use crate::store::{AcquireRequest, AcquireSharedRequest};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Acquire(AcquireRequest),
    Share(AcquireSharedRequest),
}

impl Request {
    /// The waiters for its answer.
    pub(super) fn waiters(&self) -> Vec<HoldId> {
        match self {
            Self::Acquire(request) => vec![request.hold],
            Self::Share(request) => request.holds.clone(),
        }
    }

    pub(super) fn has_entry(&self) -> bool {
        match self {
            Self::Acquire(request) => request.entry.is_some(),
            Self::Share(request) => request.entry.is_some(),
        }
    }
}
