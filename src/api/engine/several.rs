//! From a request for several keys to their entries.
//!
//! Every caller takes its locks in the same order: by slot, and then by the bytes of the key. It waits for a lock only
//! while it has all locks before it. So a caller that waits for the last lock of all waits for a caller that waits for
//! nothing, and no callers wait for each other in a circle, as long as none of them is inside another lock.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use tokio::{runtime::Handle, time::Instant};

use super::{Engine, detects, present_runtime};
use crate::{
    base::{
        acquisition::Acquisition,
        error::{LockError, StoreError},
        id::HoldId,
        key::LockKey,
        mode::Mode,
        options::{Options, Reentrancy, Terms, WaitLimit, config},
        span::Span,
    },
    hold::{
        confirm,
        deadlock::watched,
        entries::Entries,
        entry::{Entry, Won},
        hold::{CallGraph, Hold},
        scope,
        verify::{is_behind, verified},
    },
    queue::{End, Grant},
    store::MOST_TOGETHER,
};

impl Engine {
    /// Re-enters the locks that enclosing calls hold, and acquires the others: all of them, or none.
    pub(crate) async fn enter_all(
        &self,
        names: &[String],
        options: Options,
    ) -> Result<Entries, LockError> {
        let keys = self.keys(names)?;
        let terms = options.resolve(self.defaults)?;
        let runtime = present_runtime()?;
        let (entries, mut keys) = self.reenter(keys, options, terms).await?;
        if keys.is_empty() {
            return Ok(entries);
        }
        let queues = self.renewals.queues();
        if terms.wait == WaitLimit::Never {
            // A caller that does not wait need not keep the order, and begins with the keys that are probably not free.
            keys.sort_by_key(|key| queues.is_vacant(key));
        }
        let since = Instant::now();
        let nested = entries.holds().len();
        let mut acquisition = Acquisition::begin(&keys, terms.mode, since);
        let taking = self.take_all(&keys, entries, terms, runtime, since);
        let taken = if acquisition.span().is_open() {
            // Boxed, since a future that is moved into another future is copied.
            Box::pin(acquisition.span().around(taking)).await
        } else {
            taking.await
        };
        let entries = acquisition.noted(taken)?;
        acquisition.succeed();
        let begun = entries.holds().get(nested..).unwrap_or_default();
        if let Some(first) = begun.first() {
            let span = Span::hold(&keys, terms.mode, first.id(), first.token());
            begun.iter().for_each(|hold| hold.set_span(span.clone()));
        }
        Ok(entries)
    }

    /// Takes the locks of these keys, which no enclosing call holds.
    async fn take_all(
        &self,
        keys: &[LockKey],
        entries: Entries,
        terms: Terms,
        runtime: Handle,
        since: Instant,
    ) -> Result<Entries, LockError> {
        let _acquiring = self.renewals.queues().activity().during();
        let nested = entries.holds().len();
        let mut taking = Taking::new(self, entries, terms, (runtime, since), keys.len());
        taking.take_all(keys).await?;
        taking.verify(nested).await?;
        let begun = taking.entries.holds().iter().skip(nested);
        // Each hold is renewed first, so that the replicas have one request to confirm.
        let confirms = begun.map(|hold| confirm::taken(hold, self.store(), None));
        let confirmed = try_join_all(confirms).await.map(drop);
        if let Err(unconfirmed) = confirmed {
            // The result of the release does not matter: the release is repeated in the background.
            let _ = taking.entries.exit().await;
            return Err(unconfirmed);
        }
        let begun = taking.entries.holds().iter().skip(nested);
        begun.for_each(|hold| hold.set_min_hold(terms.min_hold));
        Ok(taking.entries)
    }

    /// The keys of these names, each once, in the order in which they are taken.
    fn keys(&self, names: &[String]) -> Result<Vec<LockKey>, LockError> {
        let keys = names.iter().map(|name| self.key(name));
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(config("there is no key to lock".to_owned()));
        }
        sort(&mut keys);
        keys.dedup();
        Ok(keys)
    }

    /// Re-enters the locks that enclosing calls hold. Returns the entries and the keys that are left.
    async fn reenter(
        &self,
        keys: Vec<LockKey>,
        options: Options,
        terms: Terms,
    ) -> Result<(Entries, Vec<LockKey>), LockError> {
        let (mut held, mut left) = (Vec::new(), Vec::new());
        for key in keys {
            match scope::enclosing(&self.id, &key) {
                Some(_) if terms.reentrancy == Reentrancy::Forbid => {
                    let key = key.name().to_owned();
                    return Err(LockError::AlreadyHeld { key });
                }
                // Checked before anything is sent: otherwise the locks entered by then would have to be left.
                Some(hold) if hold.is_upgrade(terms.mode) => {
                    let key = key.name().to_owned();
                    return Err(LockError::Upgrade { key });
                }
                Some(hold) => held.push(hold),
                None => left.push(key),
            }
        }
        let entering = held.into_iter().map(async |hold: Arc<Hold>| {
            let key = hold.key().clone();
            // Only a TTL that the request sets lengthens the lease; the default TTL does not.
            let how = (terms.mode, terms.depth_sync);
            let nested = Entry::nested(hold, &self.renewals, options.ttl, how);
            (key, nested.await)
        });
        let mut entered = Vec::new();
        for (key, nested) in join_all(entering).await {
            match nested {
                Some(entry) => entered.push(entry),
                // The hold has ended meanwhile.
                None => left.push(key),
            }
        }
        sort(&mut left);
        let entered = entered.into_iter().collect::<Result<_, _>>()?;
        Ok((Entries::new(entered), left))
    }
}

fn sort(keys: &mut [LockKey]) {
    keys.sort_by(|one, other| one.order().cmp(&other.order()));
}

/// The acquisition of several locks while it is under way.
struct Taking<'a> {
    engine: &'a Engine,
    terms: Terms,
    runtime: Handle,
    /// The time since which the caller waits.
    since: Instant,
    entries: Entries,
    /// The call graph of the caller, until the first hold takes it.
    graph: Option<CallGraph>,
    /// The id under which the next lock is requested.
    hold: HoldId,
}

impl<'a> Taking<'a> {
    fn new(
        engine: &'a Engine,
        mut entries: Entries,
        terms: Terms,
        (runtime, since): (Handle, Instant),
        count: usize,
    ) -> Self {
        let is_several = count > 1;
        if is_several {
            entries.tie();
        }
        let graph = scope::call_graph();
        Self {
            engine,
            terms: Terms {
                may_inherit: terms.may_inherit && !is_several,
                min_hold: None,
                ..terms
            },
            runtime,
            since,
            entries,
            hold: graph.owner().next_hold(),
            graph: Some(graph),
        }
    }

    /// The call graph of the next hold.
    fn take_graph(&mut self) -> CallGraph {
        let begun = self.graph.take().or_else(|| self.entries.graph());
        begun.unwrap_or_else(scope::call_graph)
    }

    /// Requests the remaining locks under a new hold id, since the present one has ended at the next lock.
    fn begin_anew(&mut self) {
        let graph = self.take_graph();
        self.hold = graph.owner().next_hold();
        self.graph = Some(graph);
    }

    /// Takes the locks of these keys, which are in order: together if they are free, otherwise one after the other.
    async fn take_all(&mut self, keys: &[LockKey]) -> Result<(), LockError> {
        let mut at = 0;
        // The next key that is not requested together with the keys before it, since its lock is not free.
        let mut busy = keys.len();
        // Readers of one key enter together, which saves more than one request for all keys.
        let mut one_by_one = self.terms.mode == Mode::Shared;
        while let Some(key) = keys.get(at) {
            self.engine.check_open(key)?;
            let end = busy.min(at.saturating_add(MOST_TOGETHER));
            let store = self.engine.store();
            let run = keys.get(at..end).unwrap_or_default();
            let together = run.iter().take_while(|other| store.spans(key, other));
            let run = run.get(..together.count()).unwrap_or_default();
            if one_by_one || run.len() < 2 {
                self.take(key).await?;
                at += 1;
                if busy < at {
                    busy = keys.len();
                }
                continue;
            }
            let (taken, end) = self.take_together(run).await?;
            at += taken;
            match end {
                // Another caller in this process wants the next key.
                End::Unasked if taken < run.len() => busy = at,
                End::Unasked => {}
                End::Busy(index) => {
                    busy = at + index;
                    self.may_wait_for(keys.get(busy))?;
                }
                End::Failed(failure) => {
                    busy = at;
                    self.begin_anew();
                    // A request for one lock shows which lock is refused, and may be allowed where a request for several is not.
                    one_by_one = failure.as_ref().is_some_and(StoreError::is_refused);
                    if !one_by_one {
                        self.may_ask_again(keys.get(at), failure)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the lock of one key as any other caller does. While it waits, both the locks that it has taken and the
    /// locks of the caller enclose it.
    async fn take(&mut self, key: &LockKey) -> Result<(), LockError> {
        let queues = self.engine.renewals.queues();
        let disconnects = self.engine.renewals.disconnects_of(key);
        // The first hold has taken the call graph if there is none here.
        let is_enclosed = self.graph.as_ref().is_none_or(CallGraph::has_begun);
        let detects = (is_enclosed || self.engine.is_inside()) && detects(self.terms);
        let grant = loop {
            let (terms, has) = (self.terms, (self.hold, self.entries.holds()));
            let waiting = detects.then(|| self.engine.waiting(key, has, terms, &self.runtime));
            let acquired = queues.acquire(key, self.hold, terms, self.since, &self.runtime);
            let acquired = watched(acquired, waiting, Span::default());
            if let Some(grant) = self.entries.unless_lost(acquired).await? {
                break grant;
            }
            self.begin_anew();
        };
        self.enter(grant, key, disconnects);
        Ok(())
    }

    /// Takes the locks of several keys if they are free. Returns how many of them it has taken, counted from the first.
    async fn take_together(&mut self, keys: &[LockKey]) -> Result<(usize, End), LockError> {
        let queues = self.engine.renewals.queues();
        let disconnects = keys
            .iter()
            .map(|key| self.engine.renewals.disconnects_of(key));
        let disconnects: Vec<_> = disconnects.collect();
        let acquired = queues.acquire_all(keys, self.hold, self.terms, self.since, &self.runtime);
        let together = self.entries.unless_lost(acquired).await?;
        let count = together.taken.len();
        let taken = together.taken.into_iter().zip(keys);
        for ((grant, key), disconnects) in taken.zip(disconnects) {
            self.enter(grant, key, disconnects);
        }
        Ok((count, together.end))
    }

    fn enter(&mut self, grant: Grant, key: &LockKey, disconnects: u64) {
        let graph = self.take_graph();
        // The runtime on which the acquisition began may have ended.
        let runtime = Handle::try_current();
        let place = (
            &self.engine.renewals,
            runtime.as_ref().unwrap_or(&self.runtime),
        );
        let won = Won {
            grant,
            key,
            graph,
            terms: self.terms,
            disconnects,
            since: self.since,
        };
        self.entries.enter(won, place);
    }

    /// Waits until each new lock was confirmed after the last loss of its connection.
    async fn verify(&self, nested: usize) -> Result<(), LockError> {
        let begun = self.entries.holds().get(nested..).unwrap_or_default();
        let store = self.engine.store();
        if !begun.iter().any(|hold| is_behind(hold, store)) {
            return Ok(());
        }
        let limit = match self.terms.wait {
            WaitLimit::Never => Some(self.since),
            wait => wait.limit(self.since),
        };
        // Boxed, since it is rarely needed.
        let verified = Box::pin(verified(begun, store, limit));
        Box::pin(self.entries.unless_lost(verified)).await
    }

    /// Fails if the caller does not want to wait for a lock that is not free.
    fn may_wait_for(&self, key: Option<&LockKey>) -> Result<(), LockError> {
        match key {
            Some(key) if self.terms.wait == WaitLimit::Never => Err(LockError::Busy {
                key: key.name().to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Fails if the caller does not want to wait for a store that has failed.
    fn may_ask_again(
        &self,
        key: Option<&LockKey>,
        failure: Option<StoreError>,
    ) -> Result<(), LockError> {
        match failure {
            Some(source) if self.terms.wait == WaitLimit::Never => Err(LockError::Store {
                key: key.map(|key| key.name().to_owned()),
                source,
            }),
            _ => Ok(()),
        }
    }
}
