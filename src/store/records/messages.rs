//! What a store tells without being asked.

use std::time::Duration;

use crate::base::id::{FencingToken, HoldId};
use crate::base::time::StoreTime;

/// The message that a lock has moved to holds that were waiting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffMessage {
    /// The key in the store.
    pub(crate) key: String,
    /// One hold, or the holds of several readers.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) token: FencingToken,
    /// When it has moved.
    pub(crate) at: StoreTime,
    /// Counted from then.
    pub(crate) lease: Duration,
}

/// The message, to all processes, that holds were ended by force.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ForcedMessage {
    /// The key in the store.
    pub(crate) key: String,
    pub(crate) holds: Vec<HoldId>,
}

/// The receiver of the messages that go to all processes.
pub(crate) trait Holders: Send + Sync {
    /// Holds were ended by force. Holds of other processes and of other `Locks` are among them.
    fn forced(&self, message: ForcedMessage);
}

/// The receiver of the messages that a lock has moved.
pub(crate) trait Listener: Send + Sync {
    /// A lock has moved to holds of this process.
    fn handoff(&self, message: HandoffMessage);

    /// Another process has come to wait for a lock that this process holds.
    fn contended(&self, _key: &str) {}

    /// Whether no caller waits for a message.
    fn is_idle(&self) -> bool;

    /// Messages may have been missed up to now, or will be from now on: the inbox is open, or broken.
    fn missed(&self);
}
