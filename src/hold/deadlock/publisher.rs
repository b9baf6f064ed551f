//! A wait inside other locks, which may be part of a deadlock, and its publisher: it keeps the records in the store, and
//! removes them at the end.

use std::convert::Infallible;
use std::future::pending;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::directory::STEPS_PER_HEARTBEAT;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::id::{HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::timer::{after, sleep, sleep_until};
use crate::hold::core::Core;
use crate::hold::hold::Hold;
use crate::hold::scope;
use crate::store::PublishWait;
use crate::store::records::{EnclosedWait, OuterHold, UpdateWaitReply};

/// The maximum number of enclosing holds of one call that are published. If there are more, the outermost are omitted.
const MAX_ENCLOSING: usize = 256;

/// An acquisition that may be part of a deadlock.
pub(crate) struct NestedWait<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) key: &'a LockKey,
    /// The id of the hold that it will have.
    pub(crate) hold: HoldId,
    /// Further holds that end after it, which an acquisition of several keys already has.
    pub(crate) acquired: &'a [Arc<Hold>],
    /// The holds around the whole process, beginning with the outermost. Another process has acquired them, and waits
    /// for the end of this one.
    pub(crate) outer_holds: &'a [OuterHold],
    pub(crate) heartbeat: Duration,
    /// The instant at which it began.
    pub(crate) since: Instant,
    /// The runtime for the work that outlives it.
    pub(crate) runtime: &'a Handle,
    /// Whether a failure of the search was reported.
    pub(crate) has_reported: AtomicBool,
}

impl NestedWait<'_> {
    /// Reports the first failure of the search. Returns whether the store rejects the requests permanently.
    pub(super) fn report_failure(&self, error: &StoreError) -> bool {
        if !self.has_reported.swap(true, Ordering::Relaxed) {
            events::deadlock_search_failed(self.key, self.hold, error);
        }
        error.is_denied()
    }

    /// The holds that enclose the present poll in this process, and those that the acquisition already has.
    pub(super) fn enclosing(&self) -> Vec<Arc<Hold>> {
        let mut holds = scope::enclosing_holds(self.core, MAX_ENCLOSING);
        let is_new = |hold: &&Arc<Hold>| !holds.iter().any(|known| Arc::ptr_eq(known, hold));
        let acquired = self.acquired.iter().filter(is_new);
        let acquired: Vec<_> = acquired.cloned().collect();
        // They come first, because they are inside all others.
        holds.splice(..0, acquired);
        holds
    }

    /// The record that is published for it. `None` if nothing encloses it.
    pub(super) fn record(&self) -> Option<EnclosedWait> {
        let holds = self.enclosing();
        let own = holds.iter().map(|hold| OuterHold {
            hold: hold.id(),
            key: hold.key().as_str().into(),
        });
        // From the innermost outwards, so that the limit omits the outermost.
        let outer = self.outer_holds.iter().rev().cloned();
        let enclosing: Vec<_> = own.chain(outer).take(MAX_ENCLOSING).collect();
        (!enclosing.is_empty()).then(|| EnclosedWait {
            id: self.hold,
            key: self.key.as_str().into(),
            enclosing,
        })
    }
}

/// The publisher of one wait. There is a record with each owner of a hold that encloses the wait.
pub(super) struct Publisher<'a> {
    wait: &'a NestedWait<'a>,
    /// The owners whose records may be in the store.
    owners: Vec<OwnerId>,
}

impl<'a> Publisher<'a> {
    pub(super) fn new(wait: &'a NestedWait<'a>) -> Self {
        wait.core.waits.published.fetch_add(1, Ordering::Relaxed);
        let owners = Vec::new();
        Self { wait, owners }
    }

    fn heartbeat(&self) -> Duration {
        let directory = &self.wait.core.waits;
        directory.publishing_heartbeat(self.wait.heartbeat)
    }

    /// Publishes the wait, and repeats that until every record is stored.
    pub(super) async fn publish_first(&mut self) {
        loop {
            let begun = Instant::now();
            // A record is late if no time of the store is known, and the answer contains the time.
            for _ in 0..2 {
                if self.publish().await {
                    return;
                }
            }
            self.pause(begun).await;
        }
    }

    /// Publishes the wait periodically.
    pub(super) async fn republish(mut self) -> Infallible {
        let mut begun = Instant::now();
        loop {
            self.pause(begun).await;
            begun = Instant::now();
            self.publish().await;
        }
    }

    /// Waits until the wait must be published again.
    async fn pause(&self, begun: Instant) {
        // Counted from the beginning of the last publication, so that a slow reply does not delay the next one further.
        sleep_until(after(begun, self.heartbeat() / STEPS_PER_HEARTBEAT)).await;
    }

    /// Publishes the wait. Returns whether it is enclosed and every record is stored. If the store fails, it waits for
    /// another heartbeat. If the store rejects records, it waits for ever.
    async fn publish(&mut self) -> bool {
        let directory = &self.wait.core.waits;
        // The times of the store are read before the state that is published is observed.
        let known_time = directory.known_times();
        let wait = self.wait.record();
        let owners = wait.as_ref().map(owners).unwrap_or_default();
        // The future may have been moved out of a body that enclosed it before. The owners are noted before the
        // requests are sent. So if this future is dropped, what they have stored is removed.
        let mut left = mem::replace(&mut self.owners, owners.clone());
        left.retain(|owner| !owners.contains(owner));
        self.withdraw(&left);
        let Some(wait) = wait.map(Arc::new) else {
            return false;
        };
        let life = 2 * self.heartbeat();
        let published = owners.into_iter().map(|owner| {
            let (wait, known) = (Arc::clone(&wait), known_time(owner));
            directory.publish(PublishWait {
                owner,
                wait,
                life,
                known,
            })
        });
        let published: Vec<_> = published.collect();
        let answers = join_all(published).await.into_iter();
        let is_done = |answer: &_| matches!(answer, UpdateWaitReply::Done(_));
        match answers.collect::<Result<Vec<_>, _>>() {
            Ok(answers) => answers.iter().all(is_done),
            // A search without records would find nothing, so it ends here. The wait itself goes on.
            Err(error) if self.wait.report_failure(&error) => pending().await,
            Err(_) => {
                sleep(self.heartbeat()).await;
                false
            }
        }
    }

    fn withdraw(&self, owners: &[OwnerId]) {
        if owners.is_empty() {
            return;
        }
        let NestedWait { core, hold, .. } = *self.wait;
        // The wait may be dropped outside a runtime, or after its own has ended.
        let runtime = Handle::try_current();
        let runtime = runtime.as_ref().unwrap_or(self.wait.runtime);
        core.waits.withdraw(runtime, hold, owners);
    }
}

/// The owners of the holds that enclose a wait.
fn owners(wait: &EnclosedWait) -> Vec<OwnerId> {
    let mut owners: Vec<OwnerId> = Vec::new();
    for enclosing in &wait.enclosing {
        let owner = enclosing.hold.owner();
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    owners
}

impl Drop for Publisher<'_> {
    fn drop(&mut self) {
        self.withdraw(&self.owners);
        let published = &self.wait.core.waits.published;
        published.fetch_sub(1, Ordering::Relaxed);
    }
}
