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
const LAST_LOOK: Duration = Duration::from_millis(250);

/// The shortest time between two reports of a caller.
const SHORTEST: Duration = Duration::from_millis(10);

/// The time for which a lookup waits for the description of the holder's process. It is a part of the time that remains
/// for the caller.
const DESCRIBED_WITHIN: Duration = Duration::from_millis(40);

/// The holders of a lock that a caller waits for.
#[derive(Clone)]
pub(super) struct InTheWay {
    /// The first holder that the store names.
    pub(super) holder: Holder,
    /// The number of other holders.
    pub(super) others: usize,
}

impl InTheWay {
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
pub(super) type Look = BoxFuture<'static, Option<InTheWay>>;

/// Looks up the holder of a lock, when it is first polled.
pub(super) fn look(store: &Arc<Store>, key: &LockKey) -> Look {
    let (store, key) = (Arc::clone(store), key.clone());
    Box::pin(async move {
        let queue = QueueLength::NotCounted;
        let snapshot = store.ask(Inspect { key, queue }).await.ok()??;
        let mut holder = snapshot.shown(|_| false).next()?;
        store
            .describe_holders([&mut holder], DESCRIBED_WITHIN)
            .await;
        let others = snapshot.holders.len() - 1;
        Some(InTheWay { holder, others })
    })
}

/// The times at which a caller looks up the holder, and what it has seen.
pub(super) struct Patience {
    since: Instant,
    /// The time of the next report; `None` for never.
    report_at: Option<Instant>,
    /// The time at which the caller looks up the holder for its error. `None` if its wait has no limit, or after the
    /// lookup.
    last_look: Option<Instant>,
    seen: Option<Box<InTheWay>>,
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

impl Patience {
    /// The patience of a caller that has waited since `since`, and waits until `limit`.
    pub(super) fn new(since: Instant, limit: Option<Instant>, report_after: Duration) -> Self {
        let last_look = limit.map(|limit| {
            let lead = limit.saturating_duration_since(since) / 4;
            limit - lead.min(LAST_LOOK)
        });
        Self {
            since,
            report_at: since.checked_add(report_after),
            last_look,
            seen: None,
            span: Span::current(),
        }
    }

    /// The time of the next lookup.
    pub(super) fn due(&self) -> Option<Instant> {
        self.report_at.into_iter().chain(self.last_look).min()
    }

    /// Processes a lookup for a caller that is due. Returns its report.
    pub(super) fn look(
        &mut self,
        hold: HoldId,
        seen: Option<&InTheWay>,
        now: Instant,
    ) -> Option<WaitReport> {
        // The caller may already have the lock, and not know it.
        let seen = seen.filter(|seen| seen.holder.hold_id != hold.to_string());
        self.seen = seen.cloned().map(Box::new);
        self.last_look.take_if(|at| *at <= now);
        self.report_at.filter(|at| *at <= now)?;
        let waited = now.saturating_duration_since(self.since);
        // The next report is due when the caller has waited for twice as long.
        self.report_at = Some(after(now, waited.max(SHORTEST)));
        Some(WaitReport {
            hold,
            waited,
            holder: seen.map(|seen| seen.holder.clone()),
            span: self.span.clone(),
        })
    }

    /// Takes the holders that the caller saw at its last lookup.
    pub(super) fn take_seen(&mut self) -> Option<Box<InTheWay>> {
        self.seen.take()
    }
}

impl WaitReport {
    /// Makes the report. It runs foreign code, so it is called outside the mutex.
    pub(super) fn tell(self, key: &LockKey) {
        let Self {
            hold,
            waited,
            holder,
            span,
        } = self;
        span.in_scope(|| events::waiting(key, hold, waited, holder.as_ref()));
    }
}
