//! Waits that are published, so that the processes which wait for each other find out: who waits, for which
//! lock, and which holds cannot end before it has its turn.
//!
//! A record stands with the owner of each hold that encloses the wait, for a short time. Nothing here decides who
//! has a lock: a record that is lost, late or forged can delay the search for deadlocks, or make it choose a
//! victim without need, and no more.

use std::{sync::Arc, time::Duration};

use super::{answer::Answer, protocol::StoreTime};
use crate::base::id::{HoldId, OwnerId};

/// Where waits are published.
pub(crate) trait Waits: Send + Sync {
    /// Notes that an acquisition waits. Repeating it makes the record live longer.
    ///
    /// It is refused if it took too long to arrive, so that a record which was made at some time was meant a
    /// known span before at most.
    fn publish_wait(&self, publication: Publication) -> Answer<Published>;

    /// The waits that a hold encloses, as far as they are published.
    fn waits_of(&self, hold: HoldId) -> Answer<Look>;

    /// The holds in a lock, by the name of its key in the store. What other programs write there is left out,
    /// unless it has the form of a hold id.
    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>>;

    /// Makes a wait the victim of a cycle, unless another wait of the cycle is one. Returns whether it is a victim.
    ///
    /// The victim of another cycle stands in the way only while that is part of this one too: then it resolves both.
    fn claim_victim(&self, claim: Claim) -> Answer<bool>;

    /// Takes back a record.
    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()>;
}

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

/// The record of a wait with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publication {
    /// Of one of the enclosing holds.
    pub(crate) owner: OwnerId,
    pub(crate) wait: Arc<EnclosedWait>,
    /// For how long the record lives. It is refused if it takes a quarter of that to arrive.
    pub(crate) life: Duration,
    /// A time of the store that was read before this was sent; `None` if none is known. Then it is refused.
    pub(crate) known: Option<StoreTime>,
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

/// The claim of one wait to be the victim of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) victim: HoldId,
    /// The other waits of the cycle.
    pub(crate) others: Vec<HoldId>,
    /// For how long no other wait of the cycle is the victim of one with the same least wait.
    pub(crate) life: Duration,
}

impl Claim {
    /// The least wait of the cycle: where its victim is noted, whichever walk has found it.
    pub(crate) fn least(&self) -> HoldId {
        let others = self.others.iter().copied();
        others.fold(self.victim, HoldId::min)
    }
}
