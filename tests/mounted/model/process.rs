//! The state of a process.

use super::hold::{Hold, Token};
use super::machine;
use crate::queue::machine::WaitMachine;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// The machine itself.
    pub(crate) queue: WaitMachine,
    pub(crate) stages: Vec<Stage>,
}

/// The progress of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It has not joined yet.
    #[default]
    Absent,
    /// It waits in the local queue.
    Waiting,
    /// It has the lock, and does not know that before it is polled.
    Granted(Won),
    /// It runs its body.
    Inside(Tenure),
    /// It was dropped while a request for it was in flight, which must be undone.
    Leaving,
    /// It is being released.
    Releasing,
    /// It has left, and nothing is pending any more.
    Over,
}

/// A lock that was acquired. The caller that has it may be another one than the first of the hold: then it goes on as
/// that one, and its own hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Won {
    /// The caller to which the machine granted it.
    pub(crate) waiter: Hold,
    /// The number of callers that had the hold before.
    pub(crate) turns: u8,
    pub(crate) token: Token,
    /// The time until the local deadline.
    pub(crate) left: u8,
    /// Whether an acquire of it was never answered.
    pub(crate) unanswered: bool,
    /// The depth in the store, as far as it was confirmed, and the number of its last change.
    pub(crate) stored: Option<u8>,
    pub(crate) seq: u8,
}

/// The knowledge of a body's hold about its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenure {
    /// The time until the local deadline. At 0 the lock is lost.
    pub(crate) won: Won,
    pub(crate) ttl: u8,
    /// The number of entries.
    pub(crate) wanted: u8,
    /// The depth in the store, as far as it was confirmed.
    pub(crate) stored: Option<u8>,
    pub(crate) seq: u8,
    /// Whether a change of the depth is in flight.
    pub(crate) changing: bool,
    /// Whether a renewal is in flight.
    pub(crate) renewing: bool,
    /// Whether a longer lease was requested from the hold, but not yet from the store.
    pub(crate) lengthen: bool,
}

impl Process {
    /// Returns whether the request in flight is for this waiter.
    pub(crate) fn is_asked_for(&self, hold: Hold) -> bool {
        self.queue.is_in_flight(machine::id(hold))
    }

    /// Returns whether the time of the driver has been reached.
    pub(crate) fn is_due(&self) -> bool {
        let due = self.queue.due();
        due.is_some_and(|due| due <= machine::now())
    }
}

impl Tenure {
    /// What the next caller goes on with, or the release ends.
    pub(crate) fn left(&self) -> Won {
        let Self { stored, seq, .. } = *self;
        Won {
            stored,
            seq,
            ..self.won
        }
    }

    /// Returns whether the watchdog may send a renewal, because a part of the lease has passed.
    pub(crate) fn renewal_is_due(&self) -> bool {
        let left = self.won.left;
        left > 0 && left < self.ttl && !self.renewing
    }
}
