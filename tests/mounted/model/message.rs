//! The requests, responses and messages in flight between the processes and the store.

use std::fmt;

use super::hold::{Hold, Holds, Token};
use crate::store::Residue;

/// A request, or its response on the way back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) hold: Hold,
    pub(crate) verb: Verb,
    pub(crate) answer: Option<Answer>,
    /// The time since it was sent, for a response that counts from then.
    pub(crate) age: u8,
    /// Whether a client still waits for the response.
    pub(crate) awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Verb {
    Acquire,
    Share { holds: Holds, limit: Option<u8> },
    Keep { ttl: u8 },
    Depth { target: u8, seq: u8, lengthen: bool },
    Renew { ttl: u8 },
    Release { end: End },
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    Short,
    Full(Residue),
}

impl End {
    pub(crate) fn leftovers(self) -> Residue {
        match self {
            Self::Short => Residue::default(),
            Self::Full(leftovers) => leftovers,
        }
    }

    /// The release that follows if the first attempt has no response.
    pub(crate) fn repeated(self) -> Self {
        match self {
            Self::Short => Self::Full(Residue::default()),
            Self::Full(_) => self,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Acquired(Acquired),
    /// These holds are inside, with a lease of the TTL. The others wait, or have ended.
    Shared {
        inside: Holds,
        token: Token,
        outward: u8,
    },
    /// Whether the hold was in the lock.
    Present(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Acquired {
    /// With a lease of the TTL.
    Held {
        token: Token,
    },
    /// The store's time `s` is given as `s - a`. It is the time for which the request of the instant `a` had been in
    /// flight.
    Busy {
        outward: u8,
    },
    Ended,
}

/// The message that the lock has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) holds: Holds,
    pub(crate) token: Token,
    /// The time since the lock moved.
    pub(crate) age: u8,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.hold, self.verb)?;
        if let Some(answer) = self.answer {
            write!(f, " -> {answer:?}")?;
        }
        if self.age > 0 {
            write!(f, ", {} ticks old", self.age)?;
        }
        f.write_str(if self.awaited { "" } else { ", given up" })
    }
}
