//! The acquisition of a lock, with its limits, and single attempts at several locks for one caller.
//!
//! The attempts are all made at once, and their requests travel as one batch. The caller makes an attempt of its own in
//! the local queue of each key. So each key is independent of the others when another caller joins, the caller is
//! dropped, or there is no response. Only keys whose local queue is vacant are attempted, so no caller of this process
//! is overtaken.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::local_queues::{BlockingHolders, KeyState, LocalQueues};
use super::machine::{AcquireSpec, Denied, Grant, HoldEnd, unanswered};
use super::wait::{CallerStage, Wait};
use crate::base::background::FinishInBackground;
use crate::base::error::{Failure, LockError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, Mode};
use crate::base::timer::{timeout, timeout_at};
use crate::store::{AcquireRequest, QueueEntry};

/// The failure of an acquire while the store no longer responds.
const NO_MORE_REPLIES: &str = "no answer any more";

impl LocalQueues {
    /// Acquires the lock, or waits for it in the local queue. Dropping the future leaves the queue and undoes whatever
    /// the store may have granted by then.
    ///
    /// Returns `None` if the lock was granted and not entered in time. Then it is taken back, and the caller sends a
    /// request as another hold.
    pub(crate) fn acquire<'q>(
        self: &'q Arc<Self>,
        key: &'q LockKey,
        hold: HoldId,
        terms: &LockOptions,
        since: Instant,
        runtime: &'q Handle,
    ) -> impl Future<Output = Result<Option<Grant>, LockError>> + use<'q> {
        // This is read before the request, so that no disconnect is missed between the request and the first renewal.
        let generation = self.store().generation();
        let spec = self.spec(hold, terms);
        let limit = terms.wait_limit(since);
        // A single attempt is answered before a lookup could be of use to it.
        let span = (!spec.is_single_attempt()).then_some((since, limit));
        let mut wait = Wait {
            queues: self,
            key,
            spec,
            stage: CallerStage::New,
            runtime,
            span,
        };

        // A block, because an async function stores its arguments twice.
        async move {
            // The store may never have received a request for this lock before.
            let mut replied_at = Instant::now();
            let mut now = replied_at;
            // The wait ends with an answer, at its own limit, or when the store has not responded for too long.
            let answer = loop {
                // Without any limit it needs no timer, and goes on in a runtime that has none.
                let Some(until) = self.wait_until(limit, replied_at) else {
                    break (&mut wait).await;
                };
                // The response to its request wakes a caller that is alone. If it is certain to come before the limit,
                // the first poll arms no timer.
                let is_answered = self.store().answers_by(key, now, until);
                let limited = timeout_at(until, &mut wait);
                if let Ok(answer) = limited.sparing(is_answered, |wait| wait.is_alone()).await {
                    break answer;
                }

                // The caller waits on if the store has responded since, unless its own limit is reached.
                let is_limit = Some(until) == limit;
                let (denial, at) = self.last_denial(key);
                if let Some(at) = at.filter(|at| *at > replied_at && !is_limit) {
                    replied_at = at;
                    now = Instant::now();
                    continue;
                }

                // Otherwise the wait is over. The error says what has kept the caller from the lock: a failure, a store
                // that is silent, or another holder.
                let failure = match denial.unwrap_or_else(Denied::unanswered) {
                    Denied::Failed(error) => error,
                    _ if is_limit => {
                        let blocking = wait.take_blocking_holders();
                        return Err(report_busy(key, hold, since, blocking));
                    }
                    _ => unanswered(NO_MORE_REPLIES),
                };
                return Err(Failure::Store(failure).on(key.name()));
            };

            match answer {
                Ok(mut grant) => {
                    grant.set_generation(generation);
                    Ok(Some(grant))
                }
                Err(denied) => denied.error(key).map_or(Ok(None), Err),
            }
        }
    }

    /// The instant until which a caller waits. It is the limit of its wait, or of the time that it waits for a store
    /// that has not responded since `replied_at`, whichever is earlier.
    fn wait_until(&self, limit: Option<Instant>, replied_at: Instant) -> Option<Instant> {
        let outage = replied_at.checked_add(self.queueing.outage);
        limit.into_iter().chain(outage).min()
    }

    /// What a caller with these terms wants.
    pub(super) fn spec(&self, hold: HoldId, terms: &LockOptions) -> AcquireSpec {
        if !self.requests.has_inbox() {
            // The first lock opens it, however long it waits: a holder is notified if its hold is ended by force.
            self.listen();
        }
        AcquireSpec {
            request: AcquireRequest {
                hold,
                ttl: terms.ttl,
                entry: terms.waits().then(|| self.entry(terms)),
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
    fn entry(&self, terms: &LockOptions) -> QueueEntry {
        let heartbeat = self.queueing.heartbeat(terms.ttl);
        let grant = 2 * heartbeat + terms.grace;
        let min_hold = terms.min_hold.unwrap_or_default();
        QueueEntry {
            inbox: self.requests.inbox(),
            grant: grant.max(min_hold).min(terms.ttl),
            life: 2 * heartbeat,
        }
    }
}

/// The error of a caller that another one kept from the lock until its limit.
fn report_busy(
    key: &LockKey,
    hold: HoldId,
    since: Instant,
    blocking: Option<Box<BlockingHolders>>,
) -> LockError {
    let waited = since.elapsed();
    let (holder, others) = blocking.map_or((None, 0), |blocking| {
        let BlockingHolders { holder, others } = *blocking;
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

/// The result of the attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// The number of keys that were attempted.
    pub(crate) count: usize,
    /// The locks of the first of these keys, in their order. If there are fewer, the hold has ended for the others.
    pub(crate) grants: Vec<Grant>,
}

/// A lock that was granted. It is given back, unless the caller takes it.
struct Granted<'q> {
    queues: &'q Arc<LocalQueues>,
    key: &'q LockKey,
    runtime: &'q Handle,
    grant: Option<Grant>,
}

impl Granted<'_> {
    /// Gives the lock back, together with others.
    fn undo(&mut self) -> Option<FinishInBackground<()>> {
        let (queues, key) = (self.queues, self.key);
        let release = HoldEnd {
            with_others: true,
            ..self.grant.take()?.release()
        };
        events::acquire_undone(key, release.hold);
        // The next single attempt of this process waits until the release is answered.
        queues.note_ending(key, release.hold);
        let runtime = Handle::try_current().unwrap_or_else(|_| self.runtime.clone());
        let undone = queues.release(key, release, None).map(drop);
        let is_in_memory = queues.store().is_memory();
        Some(FinishInBackground::new(Some(runtime), is_in_memory, undone))
    }
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        drop(self.undo());
    }
}

impl LocalQueues {
    /// Makes one attempt for each of the first keys, up to one that is held or wanted in this process. Makes none if
    /// there are fewer than two such keys. Locks behind one that is not granted are given back. Dropping the future
    /// undoes whatever the store may have granted by then.
    ///
    /// Fails if it is useless to wait for the lock that is not granted, or if the caller does not wait.
    pub(crate) async fn attempt_all(
        self: &Arc<Self>,
        keys: &[LockKey],
        hold: HoldId,
        terms: &LockOptions,
        since: Instant,
        runtime: &Handle,
    ) -> Result<Attempts, LockError> {
        // A caller waits for a lock only while it has those before it in the order, so none of these attempts waits.
        let wait = Duration::ZERO;
        let mut spec = self.spec(hold, &LockOptions { wait, ..*terms });
        spec.request.with_others = true;
        let waits = self.enter_vacant(keys, spec, terms.waits(), runtime);
        let count = waits.len();
        // The attempts are polled together, so that their requests travel as one batch.
        let attempts = join_all(waits.into_iter().zip(keys).map(async |(wait, key)| {
            // This is read before the request, as for a single lock.
            let generation = self.store().generation();
            let mut grant = wait.await?;
            grant.set_generation(generation);
            Ok::<_, Denied>(Granted {
                queues: self,
                key,
                runtime,
                grant: Some(grant),
            })
        }));
        let mut answers = match self.wait_until(terms.wait_limit(since), Instant::now()) {
            Some(limit) => timeout_at(limit, attempts).await.map_err(|_elapsed| {
                let first = keys.first().map(|key| key.name().to_owned());
                LockError::of_store(first, unanswered(NO_MORE_REPLIES))
            })?,
            None => attempts.await,
        };
        // The locks up to the first one that was not granted are taken. Those behind it are given back when dropped.
        let now = Instant::now();
        // The lease of a grant may have ended while another attempt was awaited.
        let is_live = |granted: &Granted<'_>| granted.grant.is_some_and(|it| it.is_live(now));
        let taken = answers
            .iter()
            .take_while(|it| it.as_ref().is_ok_and(is_live));
        let mut others = answers.split_off(taken.count()).into_iter();
        // The caller waits for that one, unless it does not wait, or that is useless.
        let denied = others.next().and_then(Result::err);
        let denied = denied.filter(|it| !terms.waits() || !it.may_retry());
        if let (Some(denied), Some(key)) = (denied, keys.get(answers.len()))
            && let Some(error) = denied.error(key)
        {
            // The caller gets an error and no lock, so nothing of the attempts is kept.
            let granted = answers.iter_mut().chain(others.as_mut_slice()).flatten();
            let undone = join_all(granted.filter_map(Granted::undo));
            // The caller finds nothing left of its attempts, unless the store does not respond.
            let limit = self.store().answers_within(key).min(terms.ttl);
            let _ = timeout(limit, undone).await;
            return Err(error);
        }
        let grants = answers.into_iter().flatten();
        Ok(Attempts {
            count,
            grants: grants.filter_map(|mut it| it.grant.take()).collect(),
        })
    }

    /// Enters the first keys, up to one that is not vacant, if there are at least two such keys. A caller that `waits` for
    /// locks that it does not get may follow a release.
    fn enter_vacant<'q>(
        self: &'q Arc<Self>,
        keys: &'q [LockKey],
        spec: AcquireSpec,
        waits: bool,
        runtime: &'q Handle,
    ) -> Vec<Wait<'q>> {
        // Nothing is sent before the first poll.
        let request = |key| {
            self.requests
                .acquire(key, spec, smallvec![spec.request.hold])
        };
        let mut requests = Vec::from_iter(keys.iter().map(request)).into_iter();
        // All of them are entered under one lock of the mutex, so that no other caller comes between them.
        let mut states = self.states.lock();
        let vacant = keys.iter().take_while(|key| match states.map.get(*key) {
            None => true,
            // The attempt travels behind the release. If it comes too early, the caller waits for that lock.
            Some(KeyState::Releasing { .. }) => waits,
            Some(_) => false,
        });
        // A single key is acquired like any other.
        let vacant = Some(vacant.count()).filter(|count| *count > 1);
        let vacant = keys.iter().take(vacant.unwrap_or_default());
        let mut followed = Vec::new();
        for (key, request) in vacant.clone().zip(&mut requests) {
            let requested = KeyState::requested(spec, runtime, Some(request));
            followed.extend(states.map.insert(key.clone(), requested));
        }
        drop(states);
        followed.into_iter().for_each(KeyState::wake_attempts);
        let entered = |key| Wait {
            queues: self,
            key,
            spec,
            stage: CallerStage::Alone,
            runtime,
            span: None,
        };
        vacant.map(entered).collect()
    }
}
