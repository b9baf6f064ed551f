//! The names of holds and tokens.

use std::fmt;

/// A hold id. Each waiter takes the lock once, so its index in the model serves as the id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) process: u8,
    pub(crate) waiter: u8,
}

/// Several holds of one process, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Holds {
    pub(crate) process: u8,
    waiters: u8,
}

impl Holds {
    pub(crate) fn none(process: u8) -> Self {
        let waiters = 0;
        Self { process, waiters }
    }

    pub(crate) fn one(hold: Hold) -> Self {
        Self::none(hold.process).with(hold)
    }

    pub(crate) fn with(self, hold: Hold) -> Self {
        let waiters = self.waiters | 1 << hold.waiter;
        Self { waiters, ..self }
    }

    pub(crate) fn without(self, hold: Hold) -> Self {
        let waiters = self.waiters & !(1 << hold.waiter);
        Self { waiters, ..self }
    }

    pub(crate) fn has(self, hold: Hold) -> bool {
        self.process == hold.process && self.waiters & 1 << hold.waiter != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.waiters == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Hold> {
        let Self { process, .. } = self;
        let holds = (0..8).map(move |waiter| Hold { process, waiter });
        holds.filter(move |hold| self.has(*hold))
    }

    pub(crate) fn filter(self, mut wanted: impl FnMut(Hold) -> bool) -> Self {
        let wanted = self.iter().filter(|hold| wanted(*hold));
        wanted.fold(Self::none(self.process), Self::with)
    }
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A fencing token. Only the order counts, so the tokens of a state are numbered again from 1.
pub(crate) type Token = u8;

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = char::from(b'A' + self.process);
        write!(f, "{process}{}", self.waiter + 1)
    }
}
