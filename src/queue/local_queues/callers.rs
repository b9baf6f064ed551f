//! The callers of one local queue, each found by its waiter, and the lookups of those that wait for long. A lookup finds
//! the holder, to report that the caller waits, and to name the holder in its error.
//!
//! The driver of the local queue makes one lookup for all its callers. So a caller has no timer for it, and a caller
//! that is answered before it has to wait does not take part.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use tokio::runtime;
use tokio::time::Instant;

use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::process::Holder;
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

#[derive(Default)]
pub(crate) struct Callers {
    /// The callers with their numbers, in the order in which they joined.
    by_hold: HashMap<HoldId, (u64, Caller), RandomState>,
    joined: u64,
    /// The next lookup of each caller that waits, with the number of the caller, in the order of their times.
    lookups: BTreeSet<(Instant, u64, HoldId)>,
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
        let lookup = caller.lookup_at().map(|at| (at, self.joined, waiter));
        self.lookups.extend(lookup);
        self.by_hold.insert(waiter, (self.joined, caller));
    }

    /// Removes a caller that has its answer, or no longer waits.
    pub(crate) fn remove(&mut self, waiter: HoldId) -> Option<Caller> {
        let (number, caller) = self.by_hold.remove(&waiter)?;
        if let Some(at) = caller.lookup_at() {
            self.lookups.remove(&(at, number, waiter));
        }
        Some(caller)
    }

    /// Changes a caller, and with it the time of its next lookup.
    pub(super) fn change<T>(
        &mut self,
        waiter: HoldId,
        work: impl FnOnce(&mut Caller) -> T,
    ) -> Option<T> {
        let (number, caller) = self.by_hold.get_mut(&waiter)?;
        let before = caller.lookup_at();
        let output = work(caller);
        if let Some(at) = before {
            self.lookups.remove(&(at, *number, waiter));
        }
        let lookup = caller.lookup_at().map(|at| (at, *number, waiter));
        self.lookups.extend(lookup);
        Some(output)
    }

    pub(crate) fn set_lookups(&mut self, waiter: HoldId, lookups: LookupSchedule) {
        self.change(waiter, |caller| caller.lookups = Some(lookups));
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

    /// The time of the first lookup.
    pub(super) fn next_lookup(&self) -> Option<Instant> {
        self.lookups.first().map(|(due, ..)| *due)
    }

    pub(super) fn is_lookup_due(&self, now: Instant) -> bool {
        self.next_lookup().is_some_and(|due| due <= now)
    }

    /// Reports a lookup to all callers that are due. Returns their reports.
    pub(super) fn note_lookup(
        &mut self,
        blocking: Option<&BlockingHolders>,
        now: Instant,
    ) -> Vec<WaitReport> {
        let mut reports = Vec::new();
        while let Some(&(due, _, waiter)) = self.lookups.first()
            && due <= now
        {
            let note = |lookups: &mut LookupSchedule| lookups.note_lookup(waiter, blocking, now);
            let report = self.change(waiter, |caller| caller.lookups.as_mut().and_then(note));
            reports.extend(report.flatten());
        }
        reports
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
