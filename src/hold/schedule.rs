//! The instants at which values are due. A schedule has values, each of them due at some instant, and backlogs of those
//! that are due, in the order of their deadlines.
//!
//! Each is a heap whose values know their positions in it, so that any of them can be removed. A value that is due
//! later than the others is added and removed without moving another one. The value of a short section is an example.
//! The memory of removed values is reused.

use std::collections::VecDeque;
use std::iter;
use std::ops::Range;

use tokio::time::Instant;

/// Values, each of which is due at some instant, or is in a backlog because it is due, or waits for nothing.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    slots: Vec<Scheduled<T>>,
    free: Vec<ScheduleSlot>,
    /// The slots of the values that are due at some instant, then those in each backlog. No value comes before its
    /// parent.
    heaps: Vec<Vec<InHeap>>,
}

/// The instant at which it is due, or its deadline in a backlog. It is stored here, so that a comparison reads nothing
/// else.
#[derive(Clone, Copy, Debug)]
struct InHeap {
    at: Instant,
    slot: ScheduleSlot,
}

/// The heap of the values that are due at some instant.
const DUE: usize = 0;

/// The number of children of a position in a heap. With many values, the cost depends on the distance between the
/// positions that are read: four children are adjacent.
const CHILDREN: usize = 4;

fn parent(place: usize) -> usize {
    (place - 1) / CHILDREN
}

fn children(place: usize) -> Range<usize> {
    let first = CHILDREN * place + 1;
    first..first + CHILDREN
}

/// The position of a value. It is small, because each hold has some. There is no memory for 2^32 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduleSlot(u32);

impl ScheduleSlot {
    fn new(at: usize) -> Self {
        Self(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn at(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

#[derive(Debug)]
struct Scheduled<T> {
    value: Option<T>,
    heap: u32,
    /// Its position in the heap, or [`NOWHERE`].
    place: usize,
}

/// The position of a value that is in no heap.
const NOWHERE: usize = usize::MAX;

impl<T> Scheduled<T> {
    fn heap(&self) -> Option<usize> {
        let heap = usize::try_from(self.heap).ok();
        heap.filter(|_| self.place != NOWHERE)
    }
}

impl<T> Schedule<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            heaps: vec![Vec::new()],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    pub(super) fn push(&mut self, value: T, due: Instant) -> ScheduleSlot {
        let entry = Scheduled {
            value: Some(value),
            heap: 0,
            place: NOWHERE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.at()] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                ScheduleSlot::new(self.slots.len() - 1)
            }
        };
        self.insert(DUE, slot, due);
        slot
    }

    /// All values.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|entry| entry.value.as_ref())
    }

    /// The value in this slot, if there is one.
    pub(super) fn get(&self, slot: ScheduleSlot) -> Option<&T> {
        self.slots.get(slot.at())?.value.as_ref()
    }

    /// Removes a value. Returns whether it was due at some instant, and in no backlog.
    pub(super) fn remove(&mut self, slot: ScheduleSlot) -> Option<(T, bool)> {
        let value = self.slots.get_mut(slot.at())?.value.take()?;
        let was_due = self.take_out(slot) == Some(DUE);
        self.free.push(slot);
        Some((value, was_due))
    }

    /// Makes a value wait for nothing from now on. Returns whether it was due at some instant, or in a backlog.
    pub(super) fn suspend(&mut self, slot: ScheduleSlot) -> bool {
        slot.at() < self.slots.len() && self.take_out(slot).is_some()
    }

    /// Makes a value due at this instant.
    pub(super) fn set_due(&mut self, slot: ScheduleSlot, due: Instant) {
        if self.get(slot).is_some() {
            self.take_out(slot);
            self.insert(DUE, slot, due);
        }
    }

    /// The next value that is due by now. It waits for nothing from now on.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<ScheduleSlot> {
        if self.earliest()? > now {
            return None;
        }
        self.pop(DUE)
    }

    /// The time at which the next value is due.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.first(DUE)
    }

    /// The values that are due by an instant, approximately in their order, with their times. Nothing is moved.
    pub(super) fn due_by(&self, by: Instant) -> impl Iterator<Item = (Instant, &T)> {
        let mut places = VecDeque::from([0]);
        let due = iter::from_fn(move || {
            loop {
                let place = places.pop_front()?;
                let first = self.heaps[DUE].get(place).filter(|it| it.at <= by);
                if let Some(it) = first {
                    places.extend(children(place));
                    return Some(it);
                }
            }
        });
        due.filter_map(|it| Some((it.at, self.get(it.slot)?)))
    }

    /// Puts a value that is due into a backlog.
    pub(super) fn put_into(&mut self, backlog: usize, slot: ScheduleSlot, deadline: Instant) {
        if self.get(slot).is_some() {
            self.take_out(slot);
            self.insert(backlog + 1, slot, deadline);
        }
    }

    /// The value with the earliest deadline of a backlog. It waits for nothing from now on.
    pub(super) fn pop_from(&mut self, backlog: usize) -> Option<ScheduleSlot> {
        self.pop(backlog + 1)
    }

    /// The earliest deadline in a backlog.
    pub(super) fn earliest_in(&self, backlog: usize) -> Option<Instant> {
        self.first(backlog + 1)
    }

    /// Sets the time again for each value that is due at some instant.
    pub(super) fn reschedule(&mut self, due: impl Fn(&T) -> Instant) {
        for InHeap { at, slot } in &mut self.heaps[DUE] {
            if let Some(value) = &self.slots[slot.at()].value {
                *at = due(value);
            }
        }
        for place in (0..self.heaps[DUE].len().div_ceil(CHILDREN)).rev() {
            self.sink(DUE, place);
        }
    }

    // ---- the heaps ----

    fn first(&self, heap: usize) -> Option<Instant> {
        Some(self.heaps.get(heap)?.first()?.at)
    }

    fn pop(&mut self, heap: usize) -> Option<ScheduleSlot> {
        let first = self.heaps.get(heap)?.first()?.slot;
        self.take_out(first);
        Some(first)
    }

    fn insert(&mut self, heap: usize, slot: ScheduleSlot, at: Instant) {
        if self.heaps.len() <= heap {
            self.heaps.resize_with(heap + 1, Vec::new);
        }
        let place = self.heaps[heap].len();
        self.heaps[heap].push(InHeap { at, slot });
        let entry = &mut self.slots[slot.at()];
        entry.heap = u32::try_from(heap).unwrap_or(u32::MAX);
        entry.place = place;
        self.rise(heap, place);
    }

    /// Removes a slot from its heap. Returns which heap it was in.
    fn take_out(&mut self, slot: ScheduleSlot) -> Option<usize> {
        let entry = &mut self.slots[slot.at()];
        let heap = entry.heap()?;
        let place = std::mem::replace(&mut entry.place, NOWHERE);
        self.heaps[heap].swap_remove(place);
        if let Some(moved) = self.heaps[heap].get(place) {
            self.slots[moved.slot.at()].place = place;
            let place = self.rise(heap, place);
            self.sink(heap, place);
        }
        Some(heap)
    }

    fn at(&self, heap: usize, place: usize) -> Instant {
        self.heaps[heap][place].at
    }

    fn swap(&mut self, heap: usize, one: usize, other: usize) {
        self.heaps[heap].swap(one, other);
        for place in [one, other] {
            self.slots[self.heaps[heap][place].slot.at()].place = place;
        }
    }

    /// Returns its position after that.
    fn rise(&mut self, heap: usize, mut place: usize) -> usize {
        while place > 0 && self.at(heap, place) < self.at(heap, parent(place)) {
            self.swap(heap, place, parent(place));
            place = parent(place);
        }
        place
    }

    fn sink(&mut self, heap: usize, mut place: usize) {
        loop {
            let below = children(place).filter(|&it| it < self.heaps[heap].len());
            let Some(next) = below.min_by_key(|&it| self.at(heap, it)) else {
                return;
            };
            if self.at(heap, place) <= self.at(heap, next) {
                return;
            }
            self.swap(heap, place, next);
            place = next;
        }
    }
}
