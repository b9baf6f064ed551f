//! The callers of one local queue, each found by its waiter, and the lookups of those that wait for long. A lookup finds
//! the holder, to report that the caller waits, and to name the holder in its error.
//!
//! The driver of the local queue makes one lookup for all its callers. So a caller has no timer for it, and a caller
//! that is answered before it has to wait does not take part.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use tokio::runtime;
use tokio::time::Instant;

use crate::base::events;
use crate::base::holder::Holder;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::span::Span;
use crate::base::timer::after;
use crate::queue::machine::{Denied, Grant};
use crate::store::{Inspect, QueueLength, Store};

/// The answer to a caller: its lock, or the reason why it does not get it.
pub(crate) type Answer = Result<Grant, Denied>;

pub(crate) struct Caller {
    /// The waker of the caller. It is `None` after the caller was woken to take an answer.
    pub(crate) waker: Option<Waker>,
    /// The runtime on which it was last polled.
    pub(crate) runtime: Option<runtime::Id>,
    pub(crate) answer: Option<Answer>,
    /// `None` if the caller makes only one attempt.
    pub(crate) lookups: Option<LookupSchedule>,
}

impl Caller {
    /// The time at which the caller looks up the holder. A caller that has its answer does not look it up.
    fn lookup_at(&self) -> Option<Instant> {
        let lookups = self.lookups.as_ref().filter(|_| self.answer.is_none());
        lookups.and_then(LookupSchedule::next_lookup)
    }
}

type LookupEntry = (Instant, u64, HoldId);

#[derive(Default)]
pub(crate) struct Callers {
    /// The callers with their numbers, in the order in which they joined.
    by_hold: HashMap<HoldId, (u64, Caller), RandomState>,
    joined: u64,
    /// The lookups in the order of their times. An entry is outdated if its caller has its answer, has left, or looks
    /// at another time.
    lookup_queue: BinaryHeap<Reverse<LookupEntry>>,
}

impl Callers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_hold.is_empty()
    }

    pub(crate) fn get(&mut self, waiter: HoldId) -> Option<&mut Caller> {
        self.by_hold.get_mut(&waiter).map(|(_, caller)| caller)
    }

    /// Adds a caller, which waits behind all others.
    pub(crate) fn join(
        &mut self,
        waiter: HoldId,
        runtime: runtime::Id,
        lookups: Option<LookupSchedule>,
    ) {
        let caller = Caller {
            waker: None,
            runtime: Some(runtime),
            answer: None,
            lookups,
        };
        self.joined += 1;
        self.by_hold.insert(waiter, (self.joined, caller));
        self.schedule_lookup(waiter);
    }

    /// Removes a caller that has its answer, or no longer waits.
    pub(crate) fn remove(&mut self, waiter: HoldId) -> Option<Caller> {
        self.by_hold.remove(&waiter).map(|(_, caller)| caller)
    }

    pub(crate) fn set_lookups(&mut self, waiter: HoldId, lookups: LookupSchedule) {
        if let Some(caller) = self.get(waiter) {
            caller.lookups = Some(lookups);
            self.schedule_lookup(waiter);
        }
    }

    /// The wakers of the callers that match, in the order in which they joined.
    pub(super) fn wakers(&mut self, fits: impl Fn(&Caller) -> bool) -> Vec<Waker> {
        let callers = self.by_hold.values_mut();
        let fitting = callers.filter(|(_, caller)| fits(caller));
        let wakers = fitting.filter_map(|(number, caller)| Some((*number, caller.waker.take()?)));
        let mut wakers: Vec<_> = wakers.collect();
        wakers.sort_unstable_by_key(|(number, _)| *number);
        wakers.into_iter().map(|(_, waker)| waker).collect()
    }

    /// Returns whether one of them was last polled on another runtime than this one.
    pub(super) fn any_on_other_runtime(&self, runtime: runtime::Id) -> bool {
        let mut callers = self.by_hold.values();
        callers.any(|(_, caller)| caller.runtime != Some(runtime))
    }

    /// The time of the first lookup. Its caller may have left in the meantime.
    pub(super) fn next_lookup(&self) -> Option<Instant> {
        self.lookup_queue.peek().map(|Reverse((due, ..))| *due)
    }

    pub(super) fn is_lookup_due(&mut self, now: Instant) -> bool {
        // An entry is not removed when its caller leaves or is answered, because the heap would have to be searched
        // for it.
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
        blocking: Option<&BlockingHolders>,
        now: Instant,
    ) -> Vec<WaitReport> {
        let mut reports = Vec::new();
        while self.is_lookup_due(now)
            && let Some(Reverse((_, _, waiter))) = self.lookup_queue.pop()
        {
            let lookups = self.get(waiter).and_then(|it| it.lookups.as_mut());
            reports.extend(lookups.and_then(|lookups| lookups.note_lookup(waiter, blocking, now)));
            self.schedule_lookup(waiter);
        }
        reports
    }

    /// Notes the time at which a caller looks up the holder.
    fn schedule_lookup(&mut self, waiter: HoldId) {
        let caller = self.by_hold.get(&waiter);
        let due = caller.and_then(|(number, caller)| Some((caller.lookup_at()?, *number, waiter)));
        self.lookup_queue.extend(due.map(Reverse));
        // At most half of the entries are outdated. So each of them is visited once or twice.
        if self.lookup_queue.len() > 2 * self.by_hold.len() + 16 {
            let mut lookups = std::mem::take(&mut self.lookup_queue);
            lookups.retain(|Reverse(lookup)| self.is_up_to_date(lookup));
            self.lookup_queue = lookups;
        }
    }

    fn is_up_to_date(&self, (due, number, waiter): &LookupEntry) -> bool {
        let caller = self.by_hold.get(waiter);
        caller.is_some_and(|(its, caller)| its == number && caller.lookup_at() == Some(*due))
    }
}

/// The time before the end of its wait at which a caller looks up the holder. In a short wait it is the last quarter.
const FINAL_LOOKUP_LEAD: Duration = Duration::from_millis(250);

/// The shortest time between two reports of a caller.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(10);

/// The time for which a lookup waits for the description of the holder's process. It is a part of the time that remains
/// for the caller.
const MAX_DESCRIBE_TIME: Duration = Duration::from_millis(40);

/// The holders of a lock that a caller waits for.
#[derive(Clone)]
pub(crate) struct BlockingHolders {
    /// The first holder that the store names.
    pub(crate) holder: Holder,
    pub(crate) others: usize,
}

impl BlockingHolders {
    /// The holders as a lookup would show them after a while in which nothing changed.
    pub(super) fn later(&self, after: Duration) -> Self {
        Self {
            holder: self.holder.later(after),
            others: self.others,
        }
    }
}

/// Looks up the holder of a lock, when it is first polled. Resolves to `None` if the lock has no holder, or the store does
/// not respond. It is not known yet whether the holder is in this process.
pub(super) fn lookup_holders(
    store: &Arc<Store>,
    key: &LockKey,
) -> BoxFuture<'static, Option<BlockingHolders>> {
    let (store, key) = (Arc::clone(store), key.clone());
    Box::pin(async move {
        let queue = QueueLength::NotCounted;
        let snapshot = store.ask(Inspect { key, queue }).await.ok()??;
        let mut holder = snapshot.shown(|_| false).next()?;
        // The holder is worth more than its description: without a response in time, it has none.
        let described = store.describe_holders([&mut holder], MAX_DESCRIBE_TIME);
        described.await;
        let others = snapshot.holders.len() - 1;
        Some(BlockingHolders { holder, others })
    })
}

/// The times at which a caller looks up the holder, and what it has found.
pub(crate) struct LookupSchedule {
    since: Instant,
    /// The time of the next report; `None` for never.
    report_at: Option<Instant>,
    /// The time at which the caller looks up the holder for its error. `None` if its wait has no limit, or after the
    /// lookup.
    final_lookup_at: Option<Instant>,
    /// The holders at the last lookup.
    pub(crate) blocking: Option<Box<BlockingHolders>>,
    /// The span in which the caller waits.
    span: Span,
}

/// The report that a caller waits.
pub(super) struct WaitReport {
    hold: HoldId,
    waited: Duration,
    holder: Option<Holder>,
    span: Span,
}

impl LookupSchedule {
    /// The times of a caller that has waited since `since`, and waits until `limit`.
    pub(crate) fn new(since: Instant, limit: Option<Instant>, report_after: Duration) -> Self {
        // The error names the holder, so the last lookup is before the limit and not after it.
        let final_lookup_at = limit.map(|limit| {
            let lead = limit.saturating_duration_since(since) / 4;
            limit - lead.min(FINAL_LOOKUP_LEAD)
        });
        Self {
            since,
            report_at: since.checked_add(report_after),
            final_lookup_at,
            blocking: None,
            span: Span::current(),
        }
    }

    pub(super) fn next_lookup(&self) -> Option<Instant> {
        self.report_at.into_iter().chain(self.final_lookup_at).min()
    }

    /// Processes a lookup for a caller that is due. Returns its report.
    pub(super) fn note_lookup(
        &mut self,
        hold: HoldId,
        blocking: Option<&BlockingHolders>,
        now: Instant,
    ) -> Option<WaitReport> {
        // The caller may already have the lock, and not know it.
        let blocking = blocking.filter(|blocking| blocking.holder.hold_id != hold.to_string());
        self.blocking = blocking.cloned().map(Box::new);
        self.final_lookup_at.take_if(|at| *at <= now);
        self.report_at.filter(|at| *at <= now)?;
        let waited = now.saturating_duration_since(self.since);
        // The next report is due when the caller has waited for twice as long.
        self.report_at = Some(after(now, waited.max(MIN_REPORT_INTERVAL)));
        Some(WaitReport {
            hold,
            waited,
            holder: blocking.map(|blocking| blocking.holder.clone()),
            span: self.span.clone(),
        })
    }
}

impl WaitReport {
    /// Makes the report. It runs foreign code, so it is called outside the mutex.
    pub(super) fn emit(self, key: &LockKey) {
        let holder = self.holder.as_ref();
        self.span
            .in_scope(|| events::waiting(key, self.hold, self.waited, holder));
    }
}
