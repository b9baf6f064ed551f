//! Waits that are published, so that the processes which wait for each other find out: who waits, for which
//! lock, and which holds cannot end before it has its turn.
//!
//! A record stands with the owner of each hold that encloses the wait, for a short time. Nothing here decides who
//! has a lock: a record that is lost, late or forged can delay the search for deadlocks, or make it choose a
//! victim without need, and no more.

use std::sync::Arc;
use std::time::Duration;

use crate::base::id::HoldId;
use crate::base::time::StoreTime;

/// An acquisition that waits while holds enclose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnclosedWait {
    /// The hold that it will have.
    pub(crate) id: HoldId,
    /// The key in the store that it waits for.
    pub(crate) key: Arc<str>,
    /// The holds that end after it, each with its key.
    pub(crate) enclosing: Vec<Enclosing>,
}

/// A hold that encloses a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Enclosing {
    pub(crate) hold: HoldId,
    /// The key in the store that it holds.
    pub(crate) key: Arc<str>,
}

impl EnclosedWait {
    /// The key of a hold that encloses it.
    pub(crate) fn enclosed_by(&self, hold: HoldId) -> Option<&Arc<str>> {
        let mut enclosing = self.enclosing.iter();
        enclosing
            .find(|enclosing| enclosing.hold == hold)
            .map(|enclosing| &enclosing.key)
    }
}

/// What a publication came to, and the time of the store then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Made(StoreTime),
    Refused(StoreTime),
}

/// How late a publication may arrive whose record lives for so long.
pub(crate) fn lateness(life: Duration) -> Duration {
    life / 4
}

/// What was published at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) at: StoreTime,
    pub(crate) waits: Vec<SeenWait>,
}

/// A record as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenWait {
    pub(crate) wait: EnclosedWait,
    /// When it was published last.
    pub(crate) stamp: StoreTime,
    /// Counted from then.
    pub(crate) life: Duration,
}
