//! The acquisition of the locks that no enclosing call holds: all of them, or none.
//!
//! Every caller acquires its locks in the same order: by slot, and then by the bytes of the key. It waits for a lock
//! only while it has all locks before it in that order. So a caller that waits for the last of its locks waits for a
//! caller that waits for nothing. No callers wait for each other in a ring, as long as none of them is inside another
//! lock.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Engine, detects};
use crate::base::error::LockError;
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, Mode, WaitLimit};
use crate::base::process::FORKED;
use crate::hold::abort::unless_lost;
use crate::hold::confirm::{is_behind, verified};
use crate::hold::deadlock::unless_deadlock;
use crate::hold::entry::Entry;
use crate::hold::hold::{CallGraph, Group, Hold};
use crate::hold::poll_watch::PollWatch;
use crate::hold::{confirm, scope};
use crate::queue::{Attempts, Grant};
use crate::store::MOST_TOGETHER;

/// An acquisition in progress.
pub(super) struct AcquiringAll<'a> {
    engine: &'a Engine,
    terms: LockOptions,
    runtime: Handle,
    /// The time since which the caller has been waiting.
    since: Instant,
    pub(super) entry: Entry,
    /// The group of the holds that the acquisition begins. `None` if it begins only one.
    group: Option<Arc<Group>>,
    /// Gives up the holds that the acquisition begins. `None` if it waits for nothing after the first one.
    watch: Option<Arc<PollWatch>>,
    /// The call graph of the caller, until the first hold takes it.
    graph: Option<CallGraph>,
    /// The id under which the next lock is requested.
    hold: HoldId,
}

impl<'a> AcquiringAll<'a> {
    /// Creates an acquisition of `count` locks.
    #[inline]
    pub(super) fn new(
        engine: &'a Engine,
        entry: Entry,
        mut terms: LockOptions,
        runtime: Handle,
        since: Instant,
        count: usize,
    ) -> Self {
        let is_several = count > 1;
        let graph = scope::call_graph();
        terms.may_inherit &= !is_several;
        Self {
            engine,
            terms,
            runtime,
            since,
            entry,
            group: is_several.then(Arc::default),
            watch: None,
            hold: graph.owner().next_hold(),
            graph: Some(graph),
        }
    }

    /// Acquires the locks of these keys, and waits until each of them counts.
    ///
    /// It is counted while it is polled. It may never be polled again: between two polls it counts only as what it has.
    pub(super) async fn acquire(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        // The local queues of a fork are copies too. A lock may be handed off in them without a request.
        if !self.engine.store().belongs_to(self.hold.owner().process()) {
            return Err(LockError::config(FORKED));
        }
        let in_flight = self.engine.renewals.queues().in_flight();
        let mut acquiring = pin!(self.acquire_uncounted(keys));
        poll_fn(|cx| {
            let _polled = in_flight.count_until_dropped();
            acquiring.as_mut().poll(cx)
        })
        .await
    }

    async fn acquire_uncounted(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        match keys {
            [key] if self.terms.confirm.is_none() => self.take(key).await?,
            keys => Box::pin(self.acquire_watched(keys)).await?,
        }
        if let Some(min_hold) = self.terms.min_hold {
            self.entry.keep_for(min_hold, &self.runtime);
        }
        Ok(())
    }

    /// Acquires locks with waits after the first one. If it is no longer polled, it gives up those that it has. It
    /// begins again when it is polled again, and has waited in the meantime.
    async fn acquire_watched(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let renewals = &self.engine.renewals;
        let heartbeat = renewals.queues().heartbeat(self.terms.ttl);
        loop {
            let watch = PollWatch::new(renewals, heartbeat);
            self.watch = Some(Arc::clone(&watch));
            if let Some(acquired) = watch.run(self.acquire_confirmed(keys)).await {
                return acquired;
            }
            self.begin_anew();
            self.entry.forget_begun();
            self.group = self.group.as_ref().map(|_| Arc::default());
        }
    }

    async fn acquire_confirmed(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let confirm = self.terms.confirm;
        let mut epoch = None;
        match keys {
            [key] => {
                epoch = confirm.map(|_| self.engine.store().generation_of(key));
                self.take(key).await?;
            }
            // Each hold is renewed before its confirmation, so that the replicas have only one request to confirm.
            several => {
                self.take_all(several).await?;
                self.verify().await?;
            }
        }
        if confirm.is_some() {
            let begun = self.entry.begun().iter();
            let confirms = begun.map(|hold| confirm::taken(hold, self.engine.store(), epoch));
            try_join_all(confirms).await?;
        }
        Ok(())
    }

    /// Takes the call graph for the next hold.
    #[inline]
    fn take_graph(&mut self) -> CallGraph {
        let begun = self
            .graph
            .take()
            .or_else(|| self.entry.holds().last().map(Hold::graph));
        begun.unwrap_or_else(scope::call_graph)
    }

    /// Requests the remaining locks under a new hold id, because the present one has ended at the next lock.
    fn begin_anew(&mut self) {
        let graph = self.take_graph();
        self.hold = graph.owner().next_hold();
        self.graph = Some(graph);
    }

    /// Acquires the locks of these sorted keys: several at once if they are free, otherwise one after the other.
    async fn take_all(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let mut at = 0;
        while let Some(rest) = keys.get(at..).filter(|rest| !rest.is_empty()) {
            let attempted = self.attempt_all(self.first_together(rest)).await?;
            let taken = attempted.grants.len();
            for (grant, key) in attempted.grants.into_iter().zip(rest) {
                self.begin(grant, key);
            }
            at += taken;
            if taken < attempted.count {
                self.begin_anew();
            } else if taken > 0 {
                continue;
            }
            // The next lock is not free, or is wanted in this process.
            if let Some(key) = keys.get(at) {
                self.take(key).await?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Returns the first of these keys, as many as are requested at once. Readers of one key enter together, which saves
    /// more than a single request for all keys.
    fn first_together<'k>(&self, keys: &'k [LockKey]) -> &'k [LockKey] {
        let store = self.engine.store();
        let first = keys.iter().take(match self.terms.mode {
            Mode::Exclusive => MOST_TOGETHER,
            Mode::Shared => 0,
        });
        let together = first.take_while(|other| store.spans(&keys[0], other));
        &keys[..together.count()]
    }

    /// Acquires the lock of one key as any other caller does. While it waits, it is enclosed by the locks that it has
    /// acquired and by the locks of the caller.
    async fn take(&mut self, key: &LockKey) -> Result<(), LockError> {
        let queues = self.engine.renewals.queues();
        // If there is no call graph here, the first hold has taken it.
        let is_enclosed = self.graph.as_ref().is_none_or(CallGraph::has_begun);
        let detects = (is_enclosed || self.engine.is_inside()) && detects(self.terms);
        let grant = loop {
            self.engine.check_open()?;
            let (terms, hold, has) = (self.terms, self.hold, self.entry.holds());
            let acquired = queues.acquire(key, hold, terms, self.since, &self.runtime);
            let acquired = if detects {
                let waiting = self.engine.waiting(key, hold, has, terms, &self.runtime);
                // Boxed, because the usual caller is inside no other lock.
                Box::pin(unless_lost(has, unless_deadlock(pin!(acquired), waiting))).await
            } else if has.is_empty() {
                acquired.await
            } else {
                Box::pin(unless_lost(has, acquired)).await
            };
            if let Some(grant) = acquired? {
                break grant;
            }
            self.begin_anew();
        };
        self.begin(grant, key);
        Ok(())
    }

    /// Makes one attempt for each of these locks, if there are several. It waits for nothing while it has locks out of
    /// their order.
    async fn attempt_all(&self, keys: &[LockKey]) -> Result<Attempts, LockError> {
        if keys.len() < 2 {
            return Ok(Attempts::default());
        }
        self.engine.check_open()?;
        let queues = self.engine.renewals.queues();
        let attempted = queues.attempt_all(keys, self.hold, self.terms, self.since, &self.runtime);
        unless_lost(self.entry.holds(), attempted).await
    }

    /// Enters a lock that was acquired.
    #[inline]
    fn begin(&mut self, grant: Grant, key: &LockKey) {
        let graph = self.take_graph();
        // The runtime on which the acquisition began may have ended.
        let runtime = Handle::try_current();
        let runtime = runtime.as_ref().unwrap_or(&self.runtime);
        let group = self.group.as_ref();
        let hold = self
            .entry
            .begin(grant, key, graph, self.terms, group, runtime);
        if let Some(watch) = &self.watch {
            watch.add(hold);
        }
        events::acquired(key, hold.id(), hold.token(), grant.via, self.since);
    }

    /// Waits until each new lock has been confirmed since the last loss of its connection.
    async fn verify(&self) -> Result<(), LockError> {
        let begun = self.entry.begun();
        let store = self.engine.store();
        if !begun.iter().any(|hold| is_behind(hold, store)) {
            return Ok(());
        }
        let limit = match self.terms.wait {
            WaitLimit::Never => Some(self.since),
            wait => wait.limit(self.since),
        };
        // Boxed, because it is rarely needed.
        let verified = Box::pin(verified(begun, store, limit));
        Box::pin(unless_lost(self.entry.holds(), verified)).await
    }
}
