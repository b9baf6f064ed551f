//! The holders of the lock in this process.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::base::options::Mode;

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
            (Mode::Exclusive, _) => *self = Self::Writer(hold, until),
        }
    }

    /// Notes that a hold is entered.
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
