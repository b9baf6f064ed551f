//! What is asked of Redis: a request by itself, and the short form in which many of them travel together.

use std::time::Duration;

use redis::Value;

use super::call::Call;
use super::reply::Unexpected;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::option_types::Mode;

/// A request to Redis, and how its reply is read.
pub(crate) trait Question {
    type Reply;

    /// The name of the request.
    fn verb(&self) -> &'static str;

    /// The request by itself.
    fn call(&self) -> Call;

    /// Whether it waits for other requests that are made in the same turn of the runtime.
    fn goes_with_others(&self) -> bool;

    /// The request as it travels with others, if it may.
    fn short(&self) -> Option<Short>;

    fn read(&self, reply: Value) -> Result<Self::Reply, Unexpected>;
}

/// A request in the form in which it travels with others: an acquire of a lock that is free, or a release where no process
/// waits.
#[derive(Clone, Debug)]
pub(crate) struct Short {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) wish: ShortWish,
}

/// What a short request wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortWish {
    /// The lock, if it is free and no process waits for it.
    Acquire {
        ttl: Duration,
        /// The inbox that is told who else comes to wait.
        told: Option<InboxId>,
    },
    /// The end of a hold that has left nothing but its field in the store, and as a reader its lease, if no process waits
    /// for its lock.
    Release {
        /// Whether the hold shares the lock.
        mode: Mode,
        /// Makes the request by itself.
        alone: fn(&LockKey, HoldId) -> Call,
    },
}

impl Short {
    /// Whether it ends a hold.
    pub(crate) fn is_release(&self) -> bool {
        matches!(self.wish, ShortWish::Release { .. })
    }
}
