//! The acquisition of a lock, and its limits.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::holder_lookup::BlockingHolders;
use super::local_queue::Effects;
use super::local_queues::LocalQueues;
use super::machine::{AcquireSpec, Grant, unanswered};
use super::wait::Wait;
use crate::base::error::{LockError, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::options::{LockOptions, WaitLimit};
use crate::base::timer::timeout_at;
use crate::store::{AcquireRequest, QueueEntry};

impl LocalQueues {
    /// Acquires the lock, or waits for it in the local queue. Dropping the future leaves the queue and undoes whatever
    /// the store may have granted by then.
    ///
    /// Returns `None` if the lock was granted and not entered in time. Then the next waiter has it, and the caller
    /// sends a request as another hold.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &LockKey,
        hold: HoldId,
        terms: LockOptions,
        since: Instant,
        runtime: &Handle,
    ) -> Result<Option<Grant>, LockError> {
        // This is read before the request, so that no disconnect is missed between the request and the first renewal.
        let generation = self.store().generation();
        let spec = self.spec(hold, terms);
        let limit = terms.wait.limit(since);
        let span = (!spec.is_single_attempt()).then_some((since, limit));
        let mut wait = Wait::new(self, key, spec, runtime, span);
        // The store may never have received a request for this lock before.
        let mut replied_at = Instant::now();
        let mut now = replied_at;
        // The wait ends with an answer, at its own limit, or when the store has not responded for too long.
        let answer = loop {
            let Some(until) = self.wait_until(limit, replied_at) else {
                break (&mut wait).await;
            };
            // The response to its request wakes a caller that is alone.
            let is_answered = self.store().answers_by(key, now, until);
            let limited = timeout_at(until, &mut wait);
            if let Ok(answer) = limited.sparing(is_answered, |wait| wait.is_alone()).await {
                break answer;
            }
            // The caller waits on if the store has responded since, unless its own limit is reached.
            let is_limit = Some(until) == limit;
            let (last, at) = self.last_reply(key);
            if let Some(at) = at.filter(|at| *at > replied_at && !is_limit) {
                replied_at = at;
                now = Instant::now();
                continue;
            }
            let failure = last.failure().or_else(|| (!is_limit).then(no_more_replies));
            return Err(match failure {
                Some(error) => LockError::of_store(Some(key.name().to_owned()), error),
                None => busy(key, hold, since, wait.take_seen()),
            });
        };
        match answer {
            Ok(mut grant) if grant.is_live(Instant::now()) => {
                grant.requested_after(generation);
                Ok(Some(grant))
            }
            // Its lease has ended before the caller was polled.
            Ok(grant) => {
                let mut effects = Effects::default();
                effects.releases.push(grant.release());
                self.apply(key, effects, None);
                Ok(None)
            }
            Err(denied) => denied.error(key).map_or(Ok(None), Err),
        }
    }

    /// The instant until which a caller waits. It is the limit of its wait, or of the time that it waits for a store
    /// that has not responded since `replied_at`, whichever is earlier.
    pub(super) fn wait_until(
        &self,
        limit: Option<Instant>,
        replied_at: Instant,
    ) -> Option<Instant> {
        let outage = replied_at.checked_add(self.queueing.outage);
        limit.into_iter().chain(outage).min()
    }

    /// What a caller with these terms wants.
    pub(super) fn spec(&self, hold: HoldId, terms: LockOptions) -> AcquireSpec {
        if !self.requests.has_inbox() {
            // The first lock opens it, however long it waits: a holder is notified if its hold is ended by force.
            self.listen();
        }
        let waits = terms.wait != WaitLimit::Never;
        AcquireSpec {
            request: AcquireRequest {
                hold,
                ttl: terms.ttl,
                entry: waits.then(|| self.entry(terms)),
                with_others: false,
            },
            mode: terms.mode,
            limit: terms.permits,
            grace: terms.grace,
            may_inherit: terms.may_inherit && terms.mode == Mode::Exclusive,
        }
    }

    /// The entry of a waiter with these terms in the store's queue.
    ///
    /// A lock that moves to the waiter has a short lease until it is renewed, and an entry has a short life. So a dead
    /// process delays the others by two heartbeats at most, or by its `min_hold`.
    fn entry(&self, terms: LockOptions) -> QueueEntry {
        let heartbeat = self.heartbeat(terms.ttl);
        let grant = 2 * heartbeat + terms.grace.duration();
        let min_hold = terms.min_hold.unwrap_or_default();
        QueueEntry {
            inbox: self.requests.inbox(),
            grant: grant.max(min_hold).min(terms.ttl),
            life: 2 * heartbeat,
            hears_contended: true,
        }
    }
}

/// The error of an acquire while the store no longer responds.
pub(super) fn no_more_replies() -> StoreError {
    unanswered("no answer any more")
}

/// The error of a caller that another one kept from the lock until its limit.
fn busy(
    key: &LockKey,
    hold: HoldId,
    since: Instant,
    seen: Option<Box<BlockingHolders>>,
) -> LockError {
    let waited = since.elapsed();
    let (holder, others) = seen.map_or((None, 0), |seen| {
        let BlockingHolders { holder, others } = *seen;
        (Some(Box::new(holder)), others)
    });
    events::timed_out(key, hold, waited, holder.as_deref());
    LockError::Busy {
        key: key.name().to_owned(),
        waited,
        holder,
        others,
    }
}
