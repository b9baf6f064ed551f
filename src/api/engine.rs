//! The state that the clones of one `Locks` share. [`entering`] turns a request into an entry.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::error::{LockError, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::metrics::{self, Classifier};
use crate::base::options::{LockOptions, QueueOptions, WaitLimit};
use crate::hold::deadlock::{Searches, Waiting};
use crate::hold::hold::Hold;
use crate::hold::renewals::RenewalSchedule;
use crate::hold::scope::LocksId;
use crate::queue::LocalQueues;
use crate::store::records::Enclosing;
use crate::store::{
    ForceRelease, ForcedMessage, ForcedReleaseListener as _, Inspect, Seen, Snapshot, Store,
};

mod acquiring;
mod entering;
#[cfg(test)]
mod tests;

/// The state that the clones of one `Locks` share.
pub(crate) struct Engine {
    id: LocksId,
    setup: Setup,
    renewals: Arc<RenewalSchedule>,
    searches: Arc<Searches>,
}

/// The parts of an engine that the builder sets.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) prefix: String,
    /// The options with which a request begins.
    pub(crate) defaults: LockOptions,
    pub(crate) response_timeout: Duration,
    pub(crate) queueing: QueueOptions,
    /// The holds that enclose the whole process.
    pub(crate) inside: Vec<Enclosing>,
    pub(crate) class: Classifier,
}

impl Engine {
    pub(crate) fn new(store: Arc<Store>, setup: Setup) -> Arc<Self> {
        metrics::describe();
        let searches = Searches::new(Arc::clone(&store));
        let renewals = RenewalSchedule::new(
            LocalQueues::new(store, setup.queueing),
            setup.response_timeout,
        );
        let holders: Weak<RenewalSchedule> = Arc::downgrade(&renewals);
        renewals.store().watch(holders);
        Arc::new(Self {
            id: LocksId::of(&renewals),
            setup,
            renewals,
            searches,
        })
    }

    pub(crate) fn id(&self) -> &LocksId {
        &self.id
    }

    pub(super) fn defaults(&self) -> LockOptions {
        self.setup.defaults
    }

    pub(super) fn renewals(&self) -> &Arc<RenewalSchedule> {
        &self.renewals
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.renewals.store()
    }

    pub(crate) fn key(&self, name: &str) -> Result<LockKey, LockError> {
        let mut key = LockKey::new(&self.setup.prefix, name)?;
        key.set_class(self.setup.class.class(name));
        Ok(key)
    }

    /// Returns the key for a query about a lock, or an error if the `Locks` is closed.
    pub(super) fn open_key(&self, name: &str) -> Result<LockKey, LockError> {
        let key = self.key(name)?;
        self.check_open()?;
        Ok(key)
    }

    fn check_open(&self) -> Result<(), LockError> {
        match self.renewals.queues().in_flight().is_closed() {
            true => Err(LockError::Closed),
            false => Ok(()),
        }
    }

    /// Returns the content of a lock in the store, or `None` if it is free.
    pub(super) async fn look(&self, key: &LockKey) -> Result<Option<Snapshot>, StoreError> {
        self.store().ask(Inspect::of(key)).await
    }

    /// Takes the lock away from those of the seen holders that still hold it, and returns them. Holders in this process
    /// are informed immediately.
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

    /// Whether the whole process runs inside holds of another program.
    fn is_inside(&self) -> bool {
        !self.setup.inside.is_empty()
    }

    /// Describes an acquisition to the deadlock search. `hold` is the hold that waits. `has` are the holds that it
    /// already has if it locks several keys.
    fn waiting<'a>(
        &'a self,
        key: &'a LockKey,
        hold: HoldId,
        has: &'a [Arc<Hold>],
        terms: LockOptions,
        runtime: &'a Handle,
    ) -> Waiting<'a> {
        let queues = self.renewals.queues();
        Waiting {
            locks: &self.id,
            key,
            hold,
            has,
            inside: &self.setup.inside,
            heartbeat: queues.heartbeat(terms.ttl),
            since: Instant::now(),
            queues,
            searches: &self.searches,
            runtime,
            has_reported: AtomicBool::new(false),
        }
    }
}

/// Whether the deadlock search includes an acquisition inside another lock.
///
/// It does not include the acquisition of a permit. A permit becomes free as soon as any of its holders leaves, so a
/// ring through one holder need not be a deadlock.
fn detects(terms: LockOptions) -> bool {
    terms.wait != WaitLimit::Never && terms.permits.is_none()
}

fn present_runtime() -> Result<Handle, LockError> {
    let outside = "await a lock inside a tokio runtime";
    Handle::try_current().map_err(|_| LockError::config(outside))
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", self.store())
            .field("prefix", &self.setup.prefix)
            .field("defaults", &self.setup.defaults)
            .finish_non_exhaustive()
    }
}
