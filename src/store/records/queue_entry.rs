//! A waiting process in the store.

use std::time::Duration;

use crate::base::id::InboxId;

/// How a process waits in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) inbox: InboxId,
    /// The lease of a lock that moves to the process.
    pub(crate) grant: Duration,
    /// How long its place is kept after the last request.
    pub(crate) life: Duration,
    /// Whether the process is told, while it holds the lock, that another one has come to wait.
    pub(crate) tells: bool,
    /// Whether it goes before the processes that want the lock in the other mode.
    pub(crate) is_preferred: bool,
}
