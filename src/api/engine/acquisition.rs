//! The acquisition of the locks that no enclosing call holds: all of them, or none.
//!
//! Every caller acquires its locks in the same order: by slot, and then by the bytes of the key. It waits for a lock
//! only while it has all locks before it in that order. So a caller that waits for the last of its locks waits for a
//! caller that waits for nothing. No callers wait for each other, as long as none of them is inside another
//! lock.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::{select_all, try_join_all};
use tokio::runtime::Handle;
use tokio::select;
use tokio::time::Instant;

use super::Engine;
use crate::base::error::LockError;
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, Mode};
use crate::base::process::FORKED;
use crate::hold::deadlock::{NestedWait, acquire_unless_deadlock};
use crate::hold::entry::Entry;
use crate::hold::hold::{CallGraph, Group, Hold};
use crate::hold::poll_watch::PollWatch;
use crate::hold::renew_request::{needs_verification, verify_all};
use crate::hold::replicas::await_replicas;
use crate::hold::scope;
use crate::queue::{Attempts, Grant};
use crate::store::MAX_KEYS_PER_REQUEST;

impl Engine {
    /// Acquires the locks of these keys, enters them, and waits until each of them counts. A caller that has waited since
    /// `since` begins with the re-entered locks of the entry.
    ///
    /// It is counted while it is polled. It may never be polled again: between two polls it counts only as what it has.
    #[inline]
    pub(super) fn acquire<'a>(
        &'a self,
        entry: &'a mut Entry,
        keys: &'a [LockKey],
        terms: &'a LockOptions,
        runtime: &'a Handle,
        since: Instant,
    ) -> impl Future<Output = Result<(), LockError>> + Send {
        let is_several = keys.len() > 1;
        let graph = scope::call_graph();
        let hold = graph.owner().next_hold();
        let mut acquisition = Acquisition {
            engine: self,
            terms,
            runtime,
            since,
            entry,
            group: is_several.then(Arc::default),
            watch: None,
            graph: Some(graph),
            hold,
        };
        async move {
            let in_flight = &self.core.queues.in_flight;
            // Counted only while it is polled, because one that is never polled again must not keep `close` waiting.
            let mut acquiring = pin!(acquisition.acquire(keys));
            poll_fn(|cx| {
                let _polled = in_flight.count_until_dropped();
                acquiring.as_mut().poll(cx)
            })
            .await
        }
    }
}

/// An acquisition in progress.
struct Acquisition<'a> {
    engine: &'a Engine,
    terms: &'a LockOptions,
    runtime: &'a Handle,
    /// The time since which the caller has been waiting.
    since: Instant,
    entry: &'a mut Entry,
    /// The group of the holds that the acquisition begins. `None` if it begins only one.
    group: Option<Arc<Group>>,
    /// Gives up the holds that the acquisition begins. `None` if it waits for nothing after the first one.
    watch: Option<Arc<PollWatch>>,
    /// The call graph of the caller, until the first hold takes it.
    graph: Option<CallGraph>,
    /// The id under which the next lock is requested.
    hold: HoldId,
}

impl Acquisition<'_> {
    async fn acquire(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        // The local queues of a fork are copies too. A lock may be handed off in them without a request.
        let process = self.hold.owner().process();
        if !self.engine.core.store.belongs_to(process) {
            return Err(LockError::config(FORKED));
        }
        match keys {
            // Usually there is one key, and nothing follows its grant.
            [key] if self.terms.confirm.is_none() => self.acquire_one(key).await?,
            keys => Box::pin(self.acquire_watched(keys)).await?,
        }
        if let Some(min_hold) = self.terms.min_hold {
            // Only now that all locks are held: until then, whatever ends the acquisition releases them.
            self.entry.begin_min_hold(min_hold, self.runtime);
        }
        Ok(())
    }

    /// Acquires locks with waits after the first one. If it is no longer polled, it gives up those that it has. It
    /// begins again when it is polled again, and has waited in the meantime.
    async fn acquire_watched(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let core = &self.engine.core;
        let heartbeat = core.queues.queueing.heartbeat(self.terms.ttl);
        loop {
            // A watch of its own for each attempt, because one that has given up stays so.
            let watch = PollWatch::new(core, heartbeat);
            self.watch = Some(Arc::clone(&watch));
            if let Some(acquired) = watch.run(self.acquire_confirmed(keys)).await {
                return acquired;
            }
            // The holds were given up while nothing polled this. It begins again, under a new id, because theirs has
            // ended.
            self.next_hold_id();
            self.entry.forget_begun();
            self.group = self.group.as_ref().map(|_| Arc::default());
        }
    }

    async fn acquire_confirmed(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let store = &self.engine.core.store;
        let confirm = self.terms.confirm;
        let mut key_generation = None;
        match keys {
            [key] => {
                // Read before the request, so that a connection that is lost in between is noticed.
                key_generation = confirm.map(|_| store.generation_of(key));
                self.acquire_one(key).await?;
            }
            // Each hold is renewed before its confirmation, so that the replicas have only one request to confirm.
            several => {
                self.acquire_several(several).await?;
                self.verify().await?;
            }
        }
        // The body begins only when the replicas have the locks.
        if let Some(confirm) = confirm {
            let begun = self.entry.begun().iter();
            let confirmed = begun.map(|hold| await_replicas(hold, confirm, store, key_generation));
            // The first failure is enough: then all of the locks are left.
            try_join_all(confirmed).await?;
        }
        Ok(())
    }

    /// Acquires the locks of these sorted keys: several at once if they are free, otherwise one after the other.
    async fn acquire_several(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let mut at = 0;
        while let Some(rest) = keys.get(at..).filter(|rest| !rest.is_empty()) {
            // Single attempts for the next keys, which cost one round trip together. What is granted behind the first
            // one that is not free is given back.
            let attempted = self.attempt_all(self.keys_for_one_batch(rest)).await?;
            let taken = attempted.grants.len();
            for (grant, key) in attempted.grants.into_iter().zip(rest) {
                self.enter(grant, key);
            }
            at += taken;
            if taken < attempted.count {
                // The hold has ended where a lock was given back, so the rest needs another id.
                self.next_hold_id();
            } else if taken > 0 {
                // All of them were granted, so attempts for the next keys follow.
                continue;
            }

            // The next lock is not free, or is wanted in this process. The caller may wait for it, because it has those
            // before it.
            if let Some(key) = keys.get(at) {
                self.acquire_one(key).await?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Returns the first of these keys, as many as are requested at once. Readers of one key enter together, which saves
    /// more than a single request for all keys.
    fn keys_for_one_batch<'k>(&self, keys: &'k [LockKey]) -> &'k [LockKey] {
        let first = keys.iter().take(match self.terms.mode {
            Mode::Exclusive => MAX_KEYS_PER_REQUEST,
            Mode::Shared => 0,
        });
        // One request may only be about locks of one group.
        let group = |key| self.engine.core.store.script_group(key);
        let together = first.take_while(|other| group(other) == group(&keys[0]));
        &keys[..together.count()]
    }

    /// Makes one attempt for each of these locks, if there are several. It waits for nothing while it has locks out of
    /// their order.
    async fn attempt_all(&self, keys: &[LockKey]) -> Result<Attempts, LockError> {
        if keys.len() < 2 {
            return Ok(Attempts::default());
        }
        self.engine.check_open()?;
        let queues = &self.engine.core.queues;
        let attempted = queues.attempt_all(keys, self.hold, self.terms, self.since, self.runtime);
        run_unless_lost(self.entry.holds(), attempted).await
    }

    /// Acquires the lock of one key as any other caller does. While it waits, it is enclosed by the locks that it has
    /// acquired and by the locks of the caller.
    async fn acquire_one(&mut self, key: &LockKey) -> Result<(), LockError> {
        let searches = self.searches_for_deadlocks();
        let grant = loop {
            // A body gets no further lock after `close`, or it might keep the program from its end.
            self.engine.check_open()?;
            let core = &self.engine.core;
            let (terms, hold, acquired) = (self.terms, self.hold, self.entry.holds());
            let queues = &core.queues;
            let acquiring = queues.acquire(key, hold, terms, self.since, self.runtime);
            // Three ways. Inside other locks, the wait may be part of a deadlock. With other locks of the request, it
            // ends if one of them is lost. Usually there is neither.
            let granted = if searches {
                let wait = NestedWait {
                    core,
                    key,
                    hold,
                    acquired,
                    outer_holds: &self.engine.outer_holds,
                    heartbeat: queues.queueing.heartbeat(terms.ttl),
                    // The search counts from the wait for this key.
                    since: Instant::now(),
                    runtime: self.runtime,
                    has_reported: AtomicBool::new(false),
                };
                // Boxed, because the usual caller is inside no other lock.
                Box::pin(run_unless_lost(
                    acquired,
                    acquire_unless_deadlock(pin!(acquiring), wait),
                ))
                .await
            } else if acquired.is_empty() {
                acquiring.await
            } else {
                Box::pin(run_unless_lost(acquired, acquiring)).await
            };
            if let Some(grant) = granted? {
                break grant;
            }
            // It was granted, and not entered in time. The next waiter has it.
            self.next_hold_id();
        };
        self.enter(grant, key);
        Ok(())
    }

    /// Returns whether a wait may be part of a deadlock: the caller is inside a lock, and waits.
    ///
    /// A permit becomes free as soon as any of its holders leaves, so a cycle through one holder need not be a deadlock.
    fn searches_for_deadlocks(&self) -> bool {
        // If there is no call graph here, the first hold has taken it.
        let is_nested = self.graph.as_ref().is_none_or(CallGraph::has_begun);
        let is_enclosed = is_nested || !self.engine.outer_holds.is_empty();
        // A wait for a permit ends when any of several holders leaves, so it is no edge of a deadlock.
        is_enclosed && self.terms.waits() && self.terms.permits.is_none()
    }

    /// Enters a lock that was acquired.
    #[inline]
    fn enter(&mut self, grant: Grant, key: &LockKey) {
        let graph = self.take_graph();
        // The runtime on which the acquisition began may have ended.
        let runtime = Handle::try_current();
        let runtime = runtime.as_ref().unwrap_or(self.runtime);
        let group = self.group.as_ref();
        let hold = self
            .entry
            .begin(grant, key, graph, self.terms, group, runtime);
        // From here on others wait for this lock, so the acquisition must go on being polled.
        if let Some(watch) = &self.watch {
            watch.add(hold);
        }
        events::acquired(key, hold.id(), hold.token(), grant.via, self.since);
    }

    /// Takes the call graph for the next hold.
    #[inline]
    fn take_graph(&mut self) -> CallGraph {
        // The first hold takes the graph along, and later ones find it there. If the first one was given up and
        // forgotten, the graph is that of the enclosing calls, or a new one.
        let holds = self.entry.holds();
        let begun = self.graph.take().or_else(|| holds.last().map(Hold::graph));
        begun.unwrap_or_else(scope::call_graph)
    }

    /// Requests the remaining locks under another hold id, because the present one has ended at the next lock.
    fn next_hold_id(&mut self) {
        // An id is never used again, so that a late request of an earlier hold finds nothing.
        let graph = self.take_graph();
        self.hold = graph.owner().next_hold();
        self.graph = Some(graph);
    }

    /// Waits until each new lock has been confirmed since the last loss of its connection.
    async fn verify(&self) -> Result<(), LockError> {
        let begun = self.entry.begun();
        let store = &self.engine.core.store;
        // The usual case: no connection was lost since the first of them was acquired.
        if !begun.iter().any(|hold| needs_verification(hold, store)) {
            return Ok(());
        }
        // A caller that does not wait makes one attempt: its limit is over after its first failure.
        let limit = self.since.checked_add(self.terms.wait);
        // Boxed, because it is rarely needed.
        let verified = Box::pin(verify_all(begun, store, limit));
        Box::pin(run_unless_lost(self.entry.holds(), verified)).await
    }
}

/// Does the work, unless one of the locks is lost in the meantime.
async fn run_unless_lost<T>(
    holds: &[Arc<Hold>],
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    // There is nothing to lose yet.
    if holds.is_empty() {
        return work.await;
    }
    let losses = holds.iter().map(|hold| Box::pin(hold.await_loss_error()));
    select! {
        biased;
        (error, ..) = select_all(losses) => Err(error),
        done = work => done,
    }
}
