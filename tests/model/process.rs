//! What a process knows.

use super::super::{LocalQueue, RequestKind};
use super::hold::{Hold, Token};
use super::machine;
use crate::base::option_types::Mode;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// The machine itself.
    pub(crate) queue: LocalQueue,
    pub(crate) stages: Vec<Stage>,
}

/// How far a caller is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Has not come yet.
    #[default]
    Absent,
    /// Waits in the local queue.
    Waiting,
    /// Has the lock, and does not know it before it is polled.
    Granted(Won),
    /// Runs its body.
    Inside(Tenure),
    /// Was dropped while a request for it was in flight, which is to be undone.
    Leaving,
    /// Is being released.
    Releasing,
    /// Has left, and nothing is awaited any more.
    Over,
}

/// A lock that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Won {
    pub(crate) token: Token,
    /// How long until the local deadline.
    pub(crate) left: u8,
    /// Whether an acquire of it was never answered.
    pub(crate) unanswered: bool,
}

/// What a body's hold knows of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenure {
    /// With the time until the local deadline. At 0 the lock is lost.
    pub(crate) won: Won,
    pub(crate) ttl: u8,
    /// How many entries there are.
    pub(crate) wanted: u8,
    /// As far as it was confirmed.
    pub(crate) stored: Option<u8>,
    pub(crate) seq: u8,
    /// Whether a change of the depth is in flight.
    pub(crate) changing: bool,
    /// Whether a renewal is.
    pub(crate) renewing: bool,
    /// Whether a longer lease was asked for, and not yet of the store.
    pub(crate) lengthen: bool,
    pub(crate) mode: Mode,
    /// Whether a downgrade is in flight.
    pub(crate) downgrading: bool,
}

impl Process {
    /// Whether the request in flight is for this waiter.
    pub(crate) fn is_asked_for(&self, hold: Hold) -> bool {
        let flight = self.queue.flight.as_ref();
        flight.is_some_and(|flight| flight.waiters.contains(&machine::id(hold)))
    }

    /// Whether the release of another hold in flight names this waiter.
    pub(crate) fn is_named(&self, hold: Hold) -> bool {
        let requests = self.queue.flight.as_ref().map(|flight| flight.kind);
        self.is_asked_for(hold) && matches!(requests, Some(RequestKind::Release { .. }))
    }

    /// Whether the time has come for the driver.
    pub(crate) fn is_due(&self) -> bool {
        let due = self.queue.due();
        due.is_some_and(|due| due <= machine::now())
    }
}

impl Tenure {
    /// Whether the watchdog may send a renewal: some of the lease has passed.
    pub(crate) fn renewal_is_due(&self) -> bool {
        let left = self.won.left;
        left > 0 && left < self.ttl && !self.renewing
    }
}
