//! The callers of one local queue, each found by its waiter, and which of them looks up the holder next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::task::Waker;

use foldhash::fast::RandomState;
use tokio::runtime;
use tokio::time::Instant;

use super::grant::Grant;
use super::holder_lookup::{InTheWay, Patience, WaitReport};
use super::step::Refusal;
use crate::base::id::HoldId;

/// The caller of one waiter.
pub(super) struct Caller {
    /// The waker of the caller. It is `None` after the caller was woken to take an answer.
    pub(super) waker: Option<Waker>,
    /// The runtime on which it was last polled.
    pub(super) runtime: Option<runtime::Id>,
    pub(super) answer: Option<Result<Grant, Refusal>>,
    /// `None` if the caller makes only one attempt.
    pub(super) patience: Option<Patience>,
}

impl Caller {
    /// The time at which the caller looks up the holder. A caller that has its answer does not look it up.
    fn looks_at(&self) -> Option<Instant> {
        let patience = self.patience.as_ref().filter(|_| self.answer.is_none());
        patience.and_then(Patience::due)
    }
}

/// The time of a lookup, the number of the caller, and its waiter.
type Due = (Instant, u64, HoldId);

/// The callers that wait for an answer.
#[derive(Default)]
pub(super) struct Callers {
    /// The callers with their numbers, in the order in which they joined.
    of: HashMap<HoldId, (u64, Caller), RandomState>,
    joined: u64,
    /// The lookups in the order of their times. An entry is outdated if its caller has its answer, has left, or looks
    /// at another time.
    looks: BinaryHeap<Reverse<Due>>,
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
        self.look_on_time(waiter);
    }

    /// Removes a caller that has its answer, or no longer waits.
    pub(super) fn remove(&mut self, waiter: HoldId) -> Option<Caller> {
        self.of.remove(&waiter).map(|(_, caller)| caller)
    }

    /// Sets the times at which a caller looks up the holder.
    pub(super) fn be_patient(&mut self, waiter: HoldId, patience: Patience) {
        if let Some(caller) = self.get(waiter) {
            caller.patience = Some(patience);
            self.look_on_time(waiter);
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

    /// Those that have no answer yet.
    pub(super) fn waiting(&self) -> Vec<HoldId> {
        let waiting = self.of.iter();
        let waiting = waiting.filter(|(_, (_, caller))| caller.answer.is_none());
        waiting.map(|(waiter, _)| *waiter).collect()
    }

    /// The time of the first lookup. Its caller may have left in the meantime.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.looks.peek().map(|Reverse((due, ..))| *due)
    }

    /// Returns whether the lookup of some caller is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        while let Some(Reverse(look)) = self.looks.peek()
            && !self.is_up_to_date(look)
        {
            self.looks.pop();
        }
        self.look_at().is_some_and(|due| due <= now)
    }

    /// Reports a lookup to all callers that are due. Returns their reports.
    pub(super) fn look(&mut self, seen: Option<&InTheWay>, now: Instant) -> Vec<WaitReport> {
        let mut reports = Vec::new();
        while self.is_due(now)
            && let Some(Reverse((_, _, waiter))) = self.looks.pop()
        {
            let patience = self.get(waiter).and_then(|it| it.patience.as_mut());
            reports.extend(patience.and_then(|patience| patience.look(waiter, seen, now)));
            self.look_on_time(waiter);
        }
        reports
    }

    /// Notes the time at which a caller looks up the holder.
    fn look_on_time(&mut self, waiter: HoldId) {
        let caller = self.of.get(&waiter);
        let due = caller.and_then(|(number, caller)| Some((caller.looks_at()?, *number, waiter)));
        self.looks.extend(due.map(Reverse));
        // At most half of the entries are outdated. So each of them is visited once or twice.
        if self.looks.len() > 2 * self.of.len() + 16 {
            let mut looks = std::mem::take(&mut self.looks);
            looks.retain(|Reverse(look)| self.is_up_to_date(look));
            self.looks = looks;
        }
    }

    fn is_up_to_date(&self, (due, number, waiter): &Due) -> bool {
        let caller = self.of.get(waiter);
        caller.is_some_and(|(its, caller)| its == number && caller.looks_at() == Some(*due))
    }
}
