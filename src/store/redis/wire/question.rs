//! The questions to Redis: a request by itself, and the short form in which many of them travel together.

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

    /// Returns whether it waits for other requests that are made in the same turn of the runtime.
    fn goes_with_others(&self) -> bool;

    /// The request in its form for a batch, if it may travel with others.
    fn short(&self) -> Option<Short>;

    fn read(&self, reply: Value) -> Result<Self::Reply, Unexpected>;
}

/// A request in the form in which it travels with others. It is an acquire of a lock that is free, or a release of a
/// lock that no process waits for.
#[derive(Clone, Debug)]
pub(crate) struct Short {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) wish: ShortWish,
}

/// The purpose of a short request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortWish {
    /// The acquire of a lock that is free and that no process waits for.
    Acquire {
        ttl: Duration,
        /// The inbox that gets a message when another process begins to wait.
        told: Option<InboxId>,
    },
    /// The end of a hold, if no process waits for its lock. The hold has left nothing but its field in the store, and
    /// its lease if it is a reader.
    Release {
        /// Whether the hold shares the lock.
        mode: Mode,
    },
}

impl Short {
    /// Returns whether it ends a hold.
    pub(crate) fn is_release(&self) -> bool {
        matches!(self.wish, ShortWish::Release { .. })
    }
}
