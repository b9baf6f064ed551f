//! The names of holds and tokens.

use std::fmt;

/// A hold id. Each waiter takes the lock once, so its place in the model serves as the name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) process: u8,
    pub(crate) waiter: u8,
}

/// A fencing token. Only the order counts, so those in a state are numbered from 1 anew.
pub(crate) type Token = u8;

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = char::from(b'A' + self.process);
        write!(f, "{process}{}", self.waiter + 1)
    }
}
