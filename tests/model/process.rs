//! What a process knows.

use crate::{message::News, state::Token};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    pub(crate) line: Line,
    pub(crate) waiters: Vec<Waiter>,
}

/// The local queue and its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// The waiters of this process, in the order in which they came.
    pub(crate) waiting: Vec<u8>,
    /// Who has the lock in this process, or is about to get it from another one.
    pub(crate) holder: Option<u8>,
    /// How many times in a row it went from one of this process to the next.
    pub(crate) handoffs: u8,
    /// The first may have to ask once its present attempt is dealt with.
    pub(crate) kicked: bool,
    /// The time has come to ask for the first.
    pub(crate) due: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) stage: Stage,
    pub(crate) attempt: Attempt,
    /// Whether some attempt may still be executed.
    pub(crate) unanswered: bool,
    /// Whether the hold may stand in the store's queue.
    pub(crate) queued: bool,
    /// How long the last answered attempt had been on its way to the store.
    pub(crate) reading: Option<u8>,
    /// A message that came while an answer was awaited.
    pub(crate) notice: Option<News>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Has not come yet.
    #[default]
    Absent,
    /// Stands in the line.
    Waiting,
    /// Has the lock, and does not know it before it is polled.
    Granted { left: u8, token: Token },
    /// Runs its body.
    Inside(Tenure),
    /// Was dropped, and waits for the answer to its attempt, to undo it.
    Undoing,
    /// Is to be released once the attempt of this one is answered.
    Choosing { first: u8 },
    /// Is being released.
    Releasing,
    /// Has left, and nothing is awaited any more.
    Over,
}

/// The request that stands for a waiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Attempt {
    #[default]
    None,
    /// An acquire of its own.
    Own,
    /// The release of another one of its process that names it as successor.
    Named,
}

/// What a body's hold knows of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenure {
    pub(crate) token: Token,
    /// How long until the local deadline. At 0 the lock is lost.
    pub(crate) left: u8,
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
}

impl Line {
    /// Takes a waiter out. Without a waiter there is nothing to ask.
    pub(crate) fn remove(&mut self, waiter: u8) {
        self.waiting.retain(|&other| other != waiter);
        if self.waiting.is_empty() {
            self.kicked = false;
            self.due = false;
        }
    }
}

impl Tenure {
    /// Whether the watchdog may send a renewal: some of the lease has passed.
    pub(crate) fn renewal_is_due(&self) -> bool {
        self.left > 0 && self.left < self.ttl && !self.renewing
    }
}
