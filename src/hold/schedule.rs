//! What is due when: the values of a schedule, and the instant at which each of them is due.
//!
//! A heap whose values know their places in it, so that any of them can be taken out. A value that is due later
//! than the others, as that of a short section is, comes in and goes without moving another one. The memory of
//! what has gone is used again.

use tokio::time::Instant;

/// Values, each of which is due at some instant, or waits for nothing.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    slots: Vec<Entry<T>>,
    free: Vec<Slot>,
    /// The slots of those that are due at some instant. None is due before the one at half its place.
    heap: Vec<Slot>,
}

/// Where a value stands. It is small, since each hold has some: there is no room for 2^32 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    fn new(at: usize) -> Self {
        Self(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn at(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

#[derive(Debug)]
struct Entry<T> {
    value: Option<T>,
    due: Instant,
    /// Its place in the heap, or [`NOWHERE`].
    place: usize,
}

/// The place of what is not in the heap.
const NOWHERE: usize = usize::MAX;

impl<T> Schedule<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            heap: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    pub(super) fn push(&mut self, value: T, due: Instant) -> Slot {
        let entry = Entry {
            value: Some(value),
            due,
            place: NOWHERE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.at()] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                Slot::new(self.slots.len() - 1)
            }
        };
        self.insert(slot);
        slot
    }

    /// All that is there.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|entry| entry.value.as_ref())
    }

    /// What stands there, if anything.
    pub(super) fn get(&self, slot: Slot) -> Option<&T> {
        self.slots.get(slot.at())?.value.as_ref()
    }

    /// Takes a value out. Returns whether it was due at some instant.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<(T, bool)> {
        let value = self.slots.get_mut(slot.at())?.value.take()?;
        let was_due = self.take_out(slot);
        self.free.push(slot);
        Some((value, was_due))
    }

    /// A value waits for nothing from now on. Returns whether it was due at some instant.
    pub(super) fn suspend(&mut self, slot: Slot) -> bool {
        slot.at() < self.slots.len() && self.take_out(slot)
    }

    /// A value that is there is due at this instant.
    pub(super) fn set_due(&mut self, slot: Slot, due: Instant) {
        if self.get(slot).is_some() {
            self.take_out(slot);
            self.slots[slot.at()].due = due;
            self.insert(slot);
        }
    }

    /// A value that is due at some instant is due at this one, if that is earlier. Returns whether it is.
    pub(super) fn put_forward(&mut self, slot: Slot, due: Instant) -> bool {
        let is_later = |entry: &&Entry<T>| entry.place != NOWHERE && entry.due > due;
        let is_forward = self.slots.get(slot.at()).filter(is_later).is_some();
        if is_forward {
            self.set_due(slot, due);
        }
        is_forward
    }

    /// The next one that is due by now. It waits for nothing from now on.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Slot> {
        let first = *self.heap.first()?;
        if self.slots[first.at()].due > now {
            return None;
        }
        self.take_out(first);
        Some(first)
    }

    /// When the next one is due.
    pub(super) fn earliest(&self) -> Option<Instant> {
        let first = *self.heap.first()?;
        Some(self.slots[first.at()].due)
    }

    /// Sets anew when each of them is due that is due at some instant.
    pub(super) fn reschedule(&mut self, due: impl Fn(&T, Instant) -> Instant) {
        for &slot in &self.heap {
            let entry = &mut self.slots[slot.at()];
            if let Some(value) = &entry.value {
                entry.due = due(value, entry.due);
            }
        }
        for place in (0..self.heap.len() / 2).rev() {
            self.sink(place);
        }
    }

    // ---- the heap ----

    fn insert(&mut self, slot: Slot) {
        let place = self.heap.len();
        self.heap.push(slot);
        self.slots[slot.at()].place = place;
        self.rise(place);
    }

    /// Returns whether it was in the heap.
    fn take_out(&mut self, slot: Slot) -> bool {
        let place = std::mem::replace(&mut self.slots[slot.at()].place, NOWHERE);
        if place == NOWHERE {
            return false;
        }
        self.heap.swap_remove(place);
        if let Some(&moved) = self.heap.get(place) {
            self.slots[moved.at()].place = place;
            let place = self.rise(place);
            self.sink(place);
        }
        true
    }

    fn due(&self, place: usize) -> Instant {
        self.slots[self.heap[place].at()].due
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.slots[self.heap[place].at()].place = place;
        }
    }

    /// Returns its place after that.
    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 && self.due(place) < self.due((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let below = below.into_iter().filter(|&it| it < self.heap.len());
            let Some(next) = below.min_by_key(|&it| self.due(it)) else {
                return;
            };
            if self.due(place) <= self.due(next) {
                return;
            }
            self.swap(place, next);
            place = next;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/properties/schedule.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn values_come_out_in_the_order_in_which_they_are_due() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        for due in [3, 1, 2, 1, 9] {
            schedule.push(due, now + due * SECOND);
        }
        let mut seen = Vec::new();
        while let Some(slot) = schedule.pop_due(now + 3 * SECOND) {
            seen.push(*schedule.get(slot).unwrap_or(&0));
        }
        assert_eq!(seen, [1, 1, 2, 3]);
        assert_eq!(schedule.earliest(), Some(now + 9 * SECOND));
    }

    #[test]
    fn what_was_due_stays_until_it_is_taken_out() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        let slot = schedule.push('a', now);
        assert_eq!(schedule.pop_due(now), Some(slot));
        assert_eq!((schedule.earliest(), schedule.is_empty()), (None, false));
        assert_eq!(schedule.remove(slot), Some(('a', false)));
        assert_eq!(schedule.remove(slot), None);
        assert!(schedule.is_empty());
        schedule.set_due(slot, now);
        assert_eq!(schedule.pop_due(now), None);
    }

    /// A section that comes and goes allocates nothing after the first one.
    #[test]
    fn the_memory_of_what_has_gone_is_used_again() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        for due in 0..100 {
            let long = schedule.push(due, now + due * SECOND);
            let short = schedule.push(due, now + 200 * SECOND);
            schedule.remove(short);
            if due % 2 == 0 {
                schedule.remove(long);
            }
        }
        assert!(schedule.slots.len() <= 51, "{}", schedule.slots.len());
    }
}
