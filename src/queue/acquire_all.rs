//! Single attempts at several locks for one caller, all made at once. Their requests travel as one batch.
//!
//! The caller makes an attempt of its own in the local queue of each key. So each key is independent of the others when
//! another caller joins, the caller is dropped, or there is no response. Only keys whose local queue is vacant are
//! attempted, so no caller of this process is overtaken.

use std::sync::Arc;
use std::task::Waker;

use futures_util::FutureExt;
use futures_util::future::join_all;
use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::acquire::no_more_replies;
use super::key_state::KeyState;
use super::local_queues::LocalQueues;
use super::machine::{AcquireSpec, Denied, Grant, Release};
use super::wait::Wait;
use crate::base::background::FinishInBackground;
use crate::base::error::LockError;
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, WaitLimit};
use crate::base::timer::{timeout, timeout_at};

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
        let release = Release {
            with_others: true,
            ..self.grant.take()?.release()
        };
        events::acquire_undone(key, release.hold);
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
        terms: LockOptions,
        since: Instant,
        runtime: &Handle,
    ) -> Result<Attempts, LockError> {
        let wait = WaitLimit::Never;
        let mut spec = self.spec(hold, LockOptions { wait, ..terms });
        spec.request.with_others = true;
        let waits = self.enter_vacant(keys, spec, terms.wait != wait, runtime);
        let count = waits.len();
        // The attempts are polled together, so that their requests travel as one batch.
        let attempts = join_all(waits.into_iter().zip(keys).map(async |(wait, key)| {
            // This is read before the request, as for a single lock.
            let generation = self.store().generation();
            let mut grant = wait.await?;
            grant.requested_after(generation);
            Ok::<_, Denied>(Granted {
                queues: self,
                key,
                runtime,
                grant: Some(grant),
            })
        }));
        let mut answers = match self.wait_until(terms.wait.limit(since), Instant::now()) {
            Some(limit) => timeout_at(limit, attempts).await.map_err(|_elapsed| {
                let first = keys.first().map(|key| key.name().to_owned());
                LockError::of_store(first, no_more_replies())
            })?,
            None => attempts.await,
        };
        // The locks up to the first one that was not granted are taken. Those behind it are given back when dropped.
        let now = Instant::now();
        let is_live = |granted: &Granted<'_>| granted.grant.is_some_and(|it| it.is_live(now));
        let taken = answers
            .iter()
            .take_while(|it| it.as_ref().is_ok_and(is_live));
        let mut others = answers.split_off(taken.count()).into_iter();
        // The caller waits for that one, unless it does not wait, or that is useless.
        let denied = others.next().and_then(Result::err);
        let denied = denied.filter(|it| terms.wait == WaitLimit::Never || !it.may_retry());
        if let (Some(denied), Some(key)) = (denied, keys.get(answers.len()))
            && let Some(error) = denied.error(key)
        {
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
        let mut states = self.states.lock();
        let vacant = keys.iter().take_while(|key| match states.map.get(*key) {
            None => true,
            // The attempt travels behind the release. If it comes too early, the caller waits for that lock.
            Some(KeyState::Releasing { .. }) => waits,
            Some(_) => false,
        });
        let vacant = Some(vacant.count()).filter(|count| *count > 1);
        let vacant = keys.iter().take(vacant.unwrap_or_default());
        let mut followed = Vec::new();
        for (key, request) in vacant.clone().zip(&mut requests) {
            let requested = KeyState::requested(spec, runtime, Some(request));
            followed.extend(states.map.insert(key.clone(), requested));
        }
        drop(states);
        for mut releasing in followed {
            releasing.take_attempts().for_each(Waker::wake);
        }
        let entered = |key| Wait::new(self, key, spec, runtime, None).entered();
        vacant.map(entered).collect()
    }
}
