//! The lookups of a caller that waits for long. They find the holder, to report that the caller waits, and to name the
//! holder in its error.
//!
//! The driver of the local queue makes one lookup for all its callers. So a caller has no timer for it, and a caller
//! that is answered before it has to wait does not take part.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::base::events;
use crate::base::holder::Holder;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::span::Span;
use crate::base::timer::after;
use crate::store::{Inspect, QueueLength, Store};

/// The time before the end of its wait at which a caller looks up the holder. In a short wait it is the last quarter.
const FINAL_LOOKUP_LEAD: Duration = Duration::from_millis(250);

/// The shortest time between two reports of a caller.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(10);

/// The time for which a lookup waits for the description of the holder's process. It is a part of the time that remains
/// for the caller.
const MAX_DESCRIBE_TIME: Duration = Duration::from_millis(40);

/// The holders of a lock that a caller waits for.
#[derive(Clone)]
pub(super) struct BlockingHolders {
    /// The first holder that the store names.
    pub(super) holder: Holder,
    /// The number of other holders.
    pub(super) others: usize,
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

/// A lookup of a lock. `None` if the lock has no holder, or the store does not respond. It is not known yet whether the
/// holder is in this process.
pub(super) type HolderLookup = BoxFuture<'static, Option<BlockingHolders>>;

/// Looks up the holder of a lock, when it is first polled.
pub(super) fn look_up_holders(store: &Arc<Store>, key: &LockKey) -> HolderLookup {
    let (store, key) = (Arc::clone(store), key.clone());
    Box::pin(async move {
        let queue = QueueLength::NotCounted;
        let snapshot = store.ask(Inspect { key, queue }).await.ok()??;
        let mut holder = snapshot.shown(|_| false).next()?;
        store
            .describe_holders([&mut holder], MAX_DESCRIBE_TIME)
            .await;
        let others = snapshot.holders.len() - 1;
        Some(BlockingHolders { holder, others })
    })
}

/// The times at which a caller looks up the holder, and what it has found.
pub(super) struct LookupSchedule {
    since: Instant,
    /// The time of the next report; `None` for never.
    report_at: Option<Instant>,
    /// The time at which the caller looks up the holder for its error. `None` if its wait has no limit, or after the
    /// lookup.
    final_lookup_at: Option<Instant>,
    /// The holders at the last lookup.
    pub(super) seen: Option<Box<BlockingHolders>>,
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
    pub(super) fn new(since: Instant, limit: Option<Instant>, report_after: Duration) -> Self {
        let final_lookup_at = limit.map(|limit| {
            let lead = limit.saturating_duration_since(since) / 4;
            limit - lead.min(FINAL_LOOKUP_LEAD)
        });
        Self {
            since,
            report_at: since.checked_add(report_after),
            final_lookup_at,
            seen: None,
            span: Span::current(),
        }
    }

    /// The time of the next lookup.
    pub(super) fn next_lookup(&self) -> Option<Instant> {
        self.report_at.into_iter().chain(self.final_lookup_at).min()
    }

    /// Processes a lookup for a caller that is due. Returns its report.
    pub(super) fn note_lookup(
        &mut self,
        hold: HoldId,
        seen: Option<&BlockingHolders>,
        now: Instant,
    ) -> Option<WaitReport> {
        // The caller may already have the lock, and not know it.
        let seen = seen.filter(|seen| seen.holder.hold_id != hold.to_string());
        self.seen = seen.cloned().map(Box::new);
        self.final_lookup_at.take_if(|at| *at <= now);
        self.report_at.filter(|at| *at <= now)?;
        let waited = now.saturating_duration_since(self.since);
        // The next report is due when the caller has waited for twice as long.
        self.report_at = Some(after(now, waited.max(MIN_REPORT_INTERVAL)));
        Some(WaitReport {
            hold,
            waited,
            holder: seen.map(|seen| seen.holder.clone()),
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
