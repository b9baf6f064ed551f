//! A lock that this process has: the grant with which a caller enters it, the holds that have it, and its end.
//!
//! A grant comes from the store, or from the call graph that held the lock before. Several call graphs of a process have
//! one hold, one after the other. Each passes it to the next as a grant. They share nothing, and nothing renews the hold
//! on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::base::lease_times::{LeaseTimes, TokenSeries};
use crate::base::metrics::HandoffPath;
use crate::base::options::Mode;
use crate::base::timer::after;
use crate::store::{ReleaseKind, Residue, TOMBSTONE_LIFE};

/// A lock that was acquired and is not entered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) tokens: TokenSeries,
    pub(crate) lease: LeaseTimes,
    pub(crate) depth: StoredDepth,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether the hold was not found lost.
    pub(crate) is_open: bool,
    /// Whether another process may wait for the lock.
    pub(crate) is_contended: bool,
    /// The generation before the request that last confirmed the hold.
    pub(crate) generation: u64,
    /// The way in which the lock came to the caller that enters it.
    pub(crate) via: HandoffPath,
}

/// The known depth in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredDepth {
    /// The depth; `None` if a change was not answered.
    pub(crate) depth: Option<u32>,
    pub(crate) seq: u64,
}

impl Grant {
    /// Returns the grant with which the next turn is entered. Returns `None` if there is no token for it yet, or if a
    /// renewal is due. Then the lock goes through the store, which gives the next holder a whole lease. So turns that
    /// are shorter than a renewal cannot prevent it from being renewed.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        // The server does not learn of this turn, so its token must be one that the clock of the server has passed.
        let tokens = self.tokens.next(now)?;
        (now < self.lease.renewal_due).then_some(Self { tokens, ..self })
    }

    /// Sets the generation before the request. A lock that was handed off in memory keeps its earlier one.
    pub(crate) fn set_generation(&mut self, generation: u64) {
        if self.via != HandoffPath::Memory {
            self.generation = generation;
        }
    }

    /// Returns whether the lease is still valid. It may have expired while the caller was not polled.
    pub(crate) fn is_live(&self, now: Instant) -> bool {
        now < self.lease.deadline
    }

    pub(crate) fn release(&self) -> HoldEnd {
        HoldEnd {
            hold: self.hold,
            mode: self.mode,
            residue: Residue {
                unanswered: self.unanswered,
                nested: self.depth.seq > 0,
            },
            open: self.is_open,
            deadline: self.lease.deadline,
            ttl: self.lease.ttl,
            since: self.tokens.since(),
            with_others: false,
        }
    }
}

/// The end of a hold, with what is known of the hold when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldEnd {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) residue: Residue,
    /// Whether the hold was not found lost.
    pub(crate) open: bool,
    /// The instant until which the lease certainly lasts.
    pub(crate) deadline: Instant,
    /// The time for which the lock may stay held in the store after the last request about it.
    pub(crate) ttl: Duration,
    /// The instant since which the hold has had the lock, if that is known.
    pub(crate) since: Option<Instant>,
    pub(crate) with_others: bool,
}

impl HoldEnd {
    /// The time for which the release is repeated. A tombstone must exist before an unanswered acquire can arrive late.
    pub(crate) fn repeat_period(&self) -> Duration {
        if self.residue.unanswered {
            self.ttl.max(TOMBSTONE_LIFE)
        } else {
            self.ttl
        }
    }

    /// The instant at which its lease has certainly ended, if its first release was sent at this instant. A process that
    /// stood still learns of a failure long after its request, and the lease may have ended by then.
    pub(crate) fn held_until(&self, sent: Instant) -> Instant {
        after(sent, self.ttl)
    }

    /// Returns how the hold ends, if its first release is sent now.
    pub(crate) fn end(&self, now: Instant) -> ReleaseKind {
        // The acquire or the grant has removed the place in the queue, and none returns while the lease lasts.
        let may_wait = !self.open || now >= self.deadline;
        if may_wait || self.residue != Residue::default() {
            ReleaseKind::Full(self.residue)
        } else {
            ReleaseKind::Short
        }
    }
}

/// The holds that have the lock in this process, as far as is known. A hold that was not entered yet has the lock until
/// an instant. After it was entered, its renewals show when it has lost the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Holders {
    #[default]
    Free,
    Writer(HoldId, Option<Instant>),
    /// At least one reader.
    Readers(BTreeMap<HoldId, Option<Instant>>),
}

fn is_live(until: Option<Instant>, now: Instant) -> bool {
    until.is_none_or(|until| now < until)
}

/// The one holder of a lock that no caller of this process wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleHolder {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    /// The number of times in a row that the lock was handed off inside this process.
    pub(crate) handoffs: u32,
    /// Whether another process may wait for the lock.
    pub(crate) is_contended: bool,
}

impl Holders {
    /// The only holder, if it has entered.
    pub(super) fn sole(&self) -> Option<(HoldId, Mode)> {
        match self {
            Self::Writer(hold, None) => Some((*hold, Mode::Exclusive)),
            Self::Readers(readers) if readers.len() == 1 => {
                let (hold, until) = readers.first_key_value()?;
                until.is_none().then_some((*hold, Mode::Shared))
            }
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Free)
    }

    pub(super) fn contains(&self, hold: HoldId) -> bool {
        match self {
            Self::Free => false,
            Self::Writer(writer, _) => *writer == hold,
            Self::Readers(readers) => readers.contains_key(&hold),
        }
    }

    pub(super) fn is_shared(&self, now: Instant) -> bool {
        match self {
            Self::Readers(readers) => readers.values().any(|until| is_live(*until, now)),
            Self::Free | Self::Writer(..) => false,
        }
    }

    pub(super) fn is_exclusive(&self, now: Instant) -> bool {
        matches!(self, Self::Writer(_, until) if is_live(*until, now))
    }

    /// Adds a hold that is granted the lock. A hold that had the lock before, and does not share it, has lost it.
    pub(super) fn add(&mut self, hold: HoldId, mode: Mode, until: Option<Instant>) {
        match (mode, &mut *self) {
            (Mode::Shared, Self::Readers(readers)) => drop(readers.insert(hold, until)),
            (Mode::Shared, _) => *self = Self::Readers(BTreeMap::from([(hold, until)])),
            // A hold that had the lock before has lost it: the store gives it to one writer.
            (Mode::Exclusive, _) => *self = Self::Writer(hold, until),
        }
    }

    pub(super) fn enter(&mut self, hold: HoldId) {
        let until = match self {
            Self::Writer(writer, until) if *writer == hold => Some(until),
            Self::Readers(readers) => readers.get_mut(&hold),
            Self::Free | Self::Writer(..) => None,
        };
        until.into_iter().for_each(|until| *until = None);
    }

    pub(super) fn remove(&mut self, hold: HoldId) {
        let is_last = match self {
            Self::Free => false,
            Self::Writer(writer, _) => *writer == hold,
            Self::Readers(readers) => readers.remove(&hold).is_some() && readers.is_empty(),
        };
        if is_last {
            *self = Self::Free;
        }
    }
}

#[cfg(test)]
impl Holders {
    /// The instant until which the holds that were not entered have the lock.
    pub(super) fn each_until(&mut self, mut visit: impl FnMut(&mut Instant)) {
        match self {
            Self::Free => {}
            Self::Writer(_, until) => until.iter_mut().for_each(visit),
            Self::Readers(readers) => readers.values_mut().flatten().for_each(&mut visit),
        }
    }
}
