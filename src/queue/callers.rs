//! The callers of one local queue, each found by its waiter, and which of them looks up the holder next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::task::Waker;

use foldhash::fast::RandomState;
use tokio::runtime;
use tokio::time::Instant;

use super::holder_lookup::{BlockingHolders, LookupSchedule, WaitReport};
use super::machine::{Denied, Grant};
use crate::base::id::HoldId;

/// The answer to a caller: its lock, or the reason why it does not get it.
pub(super) type Answer = Result<Grant, Denied>;

/// The caller of one waiter.
pub(super) struct Caller {
    /// The waker of the caller. It is `None` after the caller was woken to take an answer.
    pub(super) waker: Option<Waker>,
    /// The runtime on which it was last polled.
    pub(super) runtime: Option<runtime::Id>,
    pub(super) answer: Option<Answer>,
    /// `None` if the caller makes only one attempt.
    pub(super) lookups: Option<LookupSchedule>,
}

impl Caller {
    /// The time at which the caller looks up the holder. A caller that has its answer does not look it up.
    fn lookup_at(&self) -> Option<Instant> {
        let lookups = self.lookups.as_ref().filter(|_| self.answer.is_none());
        lookups.and_then(LookupSchedule::next_lookup)
    }
}

/// The time of a lookup, the number of the caller, and its waiter.
type LookupEntry = (Instant, u64, HoldId);

/// The callers that wait for an answer.
#[derive(Default)]
pub(super) struct Callers {
    /// The callers with their numbers, in the order in which they joined.
    of: HashMap<HoldId, (u64, Caller), RandomState>,
    joined: u64,
    /// The lookups in the order of their times. An entry is outdated if its caller has its answer, has left, or looks
    /// at another time.
    lookup_queue: BinaryHeap<Reverse<LookupEntry>>,
}

impl Callers {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn get(&mut self, waiter: HoldId) -> Option<&mut Caller> {
        self.of.get_mut(&waiter).map(|(_, caller)| caller)
    }

    /// Adds a caller, which waits behind all others.
    pub(super) fn join(&mut self, waiter: HoldId, caller: Caller) {
        self.joined += 1;
        self.of.insert(waiter, (self.joined, caller));
        self.schedule_lookup(waiter);
    }

    /// Removes a caller that has its answer, or no longer waits.
    pub(super) fn remove(&mut self, waiter: HoldId) -> Option<Caller> {
        self.of.remove(&waiter).map(|(_, caller)| caller)
    }

    /// Sets the times at which a caller looks up the holder.
    pub(super) fn set_lookups(&mut self, waiter: HoldId, lookups: LookupSchedule) {
        if let Some(caller) = self.get(waiter) {
            caller.lookups = Some(lookups);
            self.schedule_lookup(waiter);
        }
    }

    /// The wakers of the callers that match, in the order in which they joined.
    pub(super) fn wakers(&mut self, fits: impl Fn(&Caller) -> bool) -> Vec<Waker> {
        let callers = self.of.values_mut();
        let fitting = callers.filter(|(_, caller)| fits(caller));
        let wakers = fitting.filter_map(|(number, caller)| Some((*number, caller.waker.take()?)));
        let mut wakers: Vec<_> = wakers.collect();
        wakers.sort_unstable_by_key(|(number, _)| *number);
        wakers.into_iter().map(|(_, waker)| waker).collect()
    }

    /// Returns whether one of them was last polled on another runtime than this one.
    pub(super) fn are_elsewhere(&self, runtime: runtime::Id) -> bool {
        let mut callers = self.of.values();
        callers.any(|(_, caller)| caller.runtime != Some(runtime))
    }

    /// Those that have no answer yet.
    pub(super) fn waiting(&self) -> Vec<HoldId> {
        let waiting = self.of.iter();
        let waiting = waiting.filter(|(_, (_, caller))| caller.answer.is_none());
        waiting.map(|(waiter, _)| *waiter).collect()
    }

    /// The time of the first lookup. Its caller may have left in the meantime.
    pub(super) fn next_lookup(&self) -> Option<Instant> {
        self.lookup_queue.peek().map(|Reverse((due, ..))| *due)
    }

    /// Returns whether the lookup of some caller is due.
    pub(super) fn is_lookup_due(&mut self, now: Instant) -> bool {
        while let Some(Reverse(lookup)) = self.lookup_queue.peek()
            && !self.is_up_to_date(lookup)
        {
            self.lookup_queue.pop();
        }
        self.next_lookup().is_some_and(|due| due <= now)
    }

    /// Reports a lookup to all callers that are due. Returns their reports.
    pub(super) fn note_lookup(
        &mut self,
        seen: Option<&BlockingHolders>,
        now: Instant,
    ) -> Vec<WaitReport> {
        let mut reports = Vec::new();
        while self.is_lookup_due(now)
            && let Some(Reverse((_, _, waiter))) = self.lookup_queue.pop()
        {
            let lookups = self.get(waiter).and_then(|it| it.lookups.as_mut());
            reports.extend(lookups.and_then(|lookups| lookups.note_lookup(waiter, seen, now)));
            self.schedule_lookup(waiter);
        }
        reports
    }

    /// Notes the time at which a caller looks up the holder.
    fn schedule_lookup(&mut self, waiter: HoldId) {
        let caller = self.of.get(&waiter);
        let due = caller.and_then(|(number, caller)| Some((caller.lookup_at()?, *number, waiter)));
        self.lookup_queue.extend(due.map(Reverse));
        // At most half of the entries are outdated. So each of them is visited once or twice.
        if self.lookup_queue.len() > 2 * self.of.len() + 16 {
            let mut lookups = std::mem::take(&mut self.lookup_queue);
            lookups.retain(|Reverse(lookup)| self.is_up_to_date(lookup));
            self.lookup_queue = lookups;
        }
    }

    fn is_up_to_date(&self, (due, number, waiter): &LookupEntry) -> bool {
        let caller = self.of.get(waiter);
        caller.is_some_and(|(its, caller)| its == number && caller.lookup_at() == Some(*due))
    }
}
