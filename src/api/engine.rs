//! From a request to an entry: re-enter what an enclosing call holds, or acquire.

use std::{
    fmt, slice,
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

use crate::{
    base::{
        acquisition::Acquisition,
        error::{LockError, StoreError},
        id::HoldId,
        key::LockKey,
        metrics::{self, Classifier},
        options::{Options, Queueing, Reentrancy, Terms, WaitLimit, Wake, config},
        span::Span,
    },
    hold::{
        confirm,
        deadlock::{PublishedCount, Waiting, watched},
        entry::{Entry, Won},
        hold::Hold,
        renewals::RenewalSchedule,
        scope::{self, LocksId},
    },
    queue::LocalQueues,
    store::{
        ForceRelease, ForcedMessage, Holders as _, Inspect, Seen, Snapshot, Store,
        records::waits::Enclosing,
    },
};

mod several;

/// The state that the clones of one `Locks` share.
pub(crate) struct Engine {
    id: LocksId,
    prefix: String,
    defaults: Options,
    renewals: Arc<RenewalSchedule>,
    published: Arc<PublishedCount>,
    /// The holds inside which the whole process runs.
    inside: Box<[Enclosing]>,
    class: Classifier,
}

/// The parts of an engine that the builder chooses.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) prefix: String,
    pub(crate) defaults: Options,
    pub(crate) response_timeout: Duration,
    pub(crate) queueing: Queueing,
    pub(crate) inside: Vec<Enclosing>,
    pub(crate) class: Classifier,
}

impl Engine {
    pub(crate) fn new(store: Arc<Store>, setup: Setup) -> Arc<Self> {
        let Setup {
            prefix,
            defaults,
            response_timeout,
            queueing,
            inside,
            class,
        } = setup;
        metrics::describe();
        let renewals = RenewalSchedule::new(LocalQueues::new(store, queueing), response_timeout);
        if queueing.wake == Wake::Notify {
            let holders: Weak<RenewalSchedule> = Arc::downgrade(&renewals);
            renewals.store().watch(holders);
        }
        Arc::new(Self {
            id: LocksId::of(&renewals),
            prefix,
            defaults,
            renewals,
            published: Arc::default(),
            inside: inside.into(),
            class,
        })
    }

    pub(crate) fn id(&self) -> &LocksId {
        &self.id
    }

    pub(super) fn renewals(&self) -> &Arc<RenewalSchedule> {
        &self.renewals
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.renewals.store()
    }

    pub(crate) fn key(&self, name: &str) -> Result<LockKey, LockError> {
        let mut key = LockKey::new(&self.prefix, name)?;
        key.set_class(self.class.class(name));
        Ok(key)
    }

    /// The key for a query about a lock; an error once the `Locks` is closed.
    pub(super) fn open_key(&self, name: &str) -> Result<LockKey, LockError> {
        let key = self.key(name)?;
        self.check_open(&key)?;
        Ok(key)
    }

    fn check_open(&self, key: &LockKey) -> Result<(), LockError> {
        self.check_open_for(key.name())
    }

    /// Checks that the `Locks` is open, for an operation that is not about one lock. The error shows `name`.
    pub(super) fn check_open_for(&self, name: &str) -> Result<(), LockError> {
        if self.renewals.queues().activity().is_closed() {
            let key = name.to_owned();
            return Err(LockError::Closed { key });
        }
        Ok(())
    }

    /// The prefix of all keys in the store.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the content of a lock in the store; `None` if it is free.
    pub(super) async fn look(&self, key: &LockKey) -> Result<Option<Snapshot>, StoreError> {
        self.store().ask(Inspect::of(key)).await
    }

    /// Takes the lock away from the seen holders that still hold it, and returns them. Holders in this process learn of
    /// it at once.
    pub(super) async fn force_release(
        &self,
        key: &LockKey,
        seen: Seen,
    ) -> Result<Vec<String>, StoreError> {
        let asked = self.store().ask(ForceRelease {
            key: key.clone(),
            seen,
        });
        let ended = asked.await?.into_iter();
        let ended = ended.filter_map(|field| String::from_utf8(field).ok());
        let ended: Vec<_> = ended.collect();
        self.renewals.forced(ForcedMessage {
            key: key.as_str().to_owned(),
            holds: ended.iter().filter_map(|hold| hold.parse().ok()).collect(),
        });
        Ok(ended)
    }

    /// The number of callers in this process that wait for the key.
    pub(crate) fn waiters(&self, key: &LockKey) -> usize {
        self.renewals.queues().len(key)
    }

    /// Re-enters the lock, or acquires it.
    pub(crate) async fn enter(&self, name: &str, options: Options) -> Result<Entry, LockError> {
        let key = self.key(name)?;
        let terms = options.resolve(self.defaults)?;
        let runtime = present_runtime()?;
        // Permits are not re-entered: each request takes one more.
        let enclosing = match terms.permits {
            None => scope::enclosing(&self.id, &key),
            Some(_) => None,
        };
        if let Some(hold) = enclosing {
            if terms.reentrancy == Reentrancy::Forbid {
                return Err(LockError::AlreadyHeld {
                    key: name.to_owned(),
                });
            }
            // Only a TTL that the request sets lengthens the lease; the default TTL does not.
            let how = (terms.mode, terms.depth_sync);
            let nested = Entry::nested(hold, &self.renewals, options.ttl, how);
            if let Some(entry) = nested.await {
                return entry;
            }
        }
        let queues = self.renewals.queues();
        let _acquiring = queues.activity().during();
        let (graph, since) = (scope::call_graph(), Instant::now());
        let keys = slice::from_ref(&key);
        let mut acquisition = Acquisition::begin(keys, terms.mode, since);
        // Read before the request, so that no disconnect is missed between the request and the first renewal.
        let disconnects = self.renewals.disconnects_of(&key);
        let epoch = terms.confirm.map(|_| self.store().connection_epoch(&key));
        let detects = detects(terms) && (graph.has_begun() || self.is_inside());
        let grant = loop {
            acquisition.noted(self.check_open(&key))?;
            let hold = graph.owner().next_hold();
            let acquiring = queues.acquire(&key, hold, terms, since, &runtime);
            let waiting = detects.then(|| self.waiting(&key, (hold, &[]), terms, &runtime));
            let acquired = watched(acquiring, waiting, acquisition.span().clone()).await;
            if let Some(grant) = acquisition.noted(acquired)? {
                break grant;
            }
        };
        // The runtime on which the acquisition began may have ended.
        let runtime = Handle::try_current().unwrap_or(runtime);
        let place = (&self.renewals, &runtime);
        let min_hold = terms.min_hold;
        // A lock that is not confirmed is given back at once, so it has no `min_hold` before.
        let is_certain = terms.confirm.is_none();
        let won = Won {
            grant,
            key: &key,
            graph,
            terms: Terms {
                min_hold: min_hold.filter(|_| is_certain),
                ..terms
            },
            disconnects,
            since,
        };
        let span = acquisition.span();
        let mut entry = {
            let _inside = span.enter();
            Entry::outermost(won, None, place)
        };
        if !is_certain {
            // Boxed, since it is rarely needed.
            let confirmed = Box::pin(span.around(self.confirmed(entry, epoch))).await;
            entry = acquisition.noted(confirmed)?;
            entry.hold().set_min_hold(min_hold);
        }
        acquisition.succeed();
        let (id, token) = (entry.hold().id(), entry.hold().token());
        entry
            .hold()
            .set_span(Span::hold(keys, terms.mode, id, token));
        Ok(entry)
    }

    /// Waits until the replicas have the lock, or gives it back.
    async fn confirmed(&self, entry: Entry, epoch: Option<u64>) -> Result<Entry, LockError> {
        match confirm::taken(entry.hold(), self.store(), epoch).await {
            Ok(()) => Ok(entry),
            Err(unconfirmed) => {
                // The result of the release does not matter: the release is repeated in the background.
                let _ = entry.exit().await;
                Err(unconfirmed)
            }
        }
    }

    /// Whether the whole process runs inside holds of another program.
    fn is_inside(&self) -> bool {
        !self.inside.is_empty()
    }

    /// An acquisition as the search for deadlocks sees it: of the hold `hold`, with the holds `has` that it already has
    /// if it locks several keys.
    fn waiting<'a>(
        &'a self,
        key: &'a LockKey,
        (hold, has): (HoldId, &'a [Arc<Hold>]),
        terms: Terms,
        runtime: &'a Handle,
    ) -> Waiting<'a> {
        let queues = self.renewals.queues();
        Waiting {
            locks: &self.id,
            key,
            hold,
            has,
            inside: &self.inside,
            heartbeat: queues.heartbeat(terms.ttl),
            since: Instant::now(),
            queues,
            count: &self.published,
            runtime,
            has_reported: AtomicBool::new(false),
        }
    }
}

/// Whether an acquisition inside another lock is searched for deadlocks.
///
/// An acquisition of a permit is not: a permit becomes free as soon as any of its holders leaves, so a ring through one
/// holder need not be a deadlock.
fn detects(terms: Terms) -> bool {
    terms.detect_deadlocks && terms.wait != WaitLimit::Never && terms.permits.is_none()
}

fn present_runtime() -> Result<Handle, LockError> {
    let outside = "a lock has to be awaited inside a tokio runtime";
    Handle::try_current().map_err(|_| config(outside.to_owned()))
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", self.store())
            .field("prefix", &self.prefix)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}
