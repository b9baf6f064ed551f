//! The waiters of one key, in the order of their turns. None of them is found by walking through the others.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use crate::base::id::HoldId;
use crate::queue::waiter::Waiter;

/// The waiters of one key in one process. A hold waits only once.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    /// The waiters in the order of their turns, so that the first ones are adjacent in memory.
    line: BTreeMap<Place, Waiter>,
    places: HashMap<HoldId, Place, RandomState>,
    /// The waiters that make only one attempt.
    hasty: BTreeMap<Place, HoldId>,
    /// The number of waiters that have joined so far.
    joined: u64,
}

/// The position of a waiter.
type Place = u64;

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The first waiter.
    pub(super) fn first(&self) -> Option<&Waiter> {
        self.line.first_key_value().map(|(_, waiter)| waiter)
    }

    /// The waiters in the order of their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.line.values()
    }

    /// The waiters that make only one attempt, in the same order.
    pub(super) fn hasty(&self) -> impl Iterator<Item = HoldId> {
        self.hasty.values().copied()
    }

    pub(super) fn get(&self, hold: HoldId) -> Option<&Waiter> {
        self.line.get(self.places.get(&hold)?)
    }

    pub(super) fn get_mut(&mut self, hold: HoldId) -> Option<&mut Waiter> {
        self.line.get_mut(self.places.get(&hold)?)
    }

    /// Adds a waiter. Returns whether it is the first one.
    pub(super) fn add(&mut self, waiter: Waiter) -> bool {
        let hold = waiter.request.hold;
        let place = self.joined;
        self.joined += 1;
        let is_first = self.is_first(place);
        self.places.insert(hold, place);
        if waiter.asks_once {
            self.hasty.insert(place, hold);
        }
        self.line.insert(place, waiter);
        is_first
    }

    /// Removes a waiter. Also returns whether it was the first one.
    pub(super) fn remove(&mut self, hold: HoldId) -> Option<(Waiter, bool)> {
        let place = self.places.remove(&hold)?;
        let waiter = self.line.remove(&place)?;
        if waiter.asks_once {
            self.hasty.remove(&place);
        }
        Some((waiter, self.is_first(place)))
    }

    /// Returns whether no waiter is before this position.
    fn is_first(&self, place: Place) -> bool {
        let first = self.line.first_key_value();
        first.is_none_or(|(first, _)| place < *first)
    }
}

#[cfg(test)]
impl Waiters {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.line.values_mut()
    }

    /// Returns whether the values that are derived from the waiters are consistent with them.
    pub(super) fn add_up(&self) -> bool {
        let place_of = |(place, waiter): (&Place, &Waiter)| (waiter.request.hold, *place);
        let places: HashMap<_, _, _> = self.line.iter().map(place_of).collect();
        let hasty = self.line.iter().filter(|(_, waiter)| waiter.asks_once);
        let hasty = hasty.map(|(place, waiter)| (*place, waiter.request.hold));
        places == self.places && hasty.eq(self.hasty.clone())
    }
}

/// Two values are equal if the same waiters wait in the same order.
#[cfg(test)]
impl PartialEq for Waiters {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
impl Eq for Waiters {}

#[cfg(test)]
impl std::hash::Hash for Waiters {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|waiter| waiter.hash(state));
    }
}
