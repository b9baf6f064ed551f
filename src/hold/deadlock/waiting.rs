//! An acquisition that may be part of a deadlock, and the publisher of its wait: it keeps the record in the store, and
//! removes it at the end.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::searches::Searches;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::id::{HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::timer::{after, sleep, sleep_until};
use crate::hold::hold::Hold;
use crate::hold::scope::{self, LocksId};
use crate::queue::LocalQueues;
use crate::store::records::{EnclosedWait, Enclosing, WaitAnswer};
use crate::store::{PublishWait, StoreTime};

/// The maximum number of enclosing holds of one call that are published. If there are more, the outermost are omitted.
const ENCLOSING: usize = 256;

/// An acquisition that may be part of a deadlock.
pub(crate) struct Waiting<'a> {
    pub(crate) locks: &'a LocksId,
    pub(crate) key: &'a LockKey,
    /// The id of the hold that it will have.
    pub(crate) hold: HoldId,
    /// Further holds that end after it, which an acquisition of several keys already has.
    pub(crate) has: &'a [Arc<Hold>],
    /// The holds around the whole process, beginning with the outermost. Another process has acquired them, and waits
    /// for the end of this one.
    pub(crate) inside: &'a [Enclosing],
    pub(crate) heartbeat: Duration,
    /// The instant at which it began.
    pub(crate) since: Instant,
    pub(crate) queues: &'a Arc<LocalQueues>,
    pub(crate) searches: &'a Arc<Searches>,
    /// The runtime for the work that outlives it.
    pub(crate) runtime: &'a Handle,
    /// Whether a failure of the search was reported.
    pub(crate) has_reported: AtomicBool,
}

impl Waiting<'_> {
    /// Reports the first failure of the search. Returns whether the store rejects the requests permanently.
    pub(super) fn has_refused(&self, error: &StoreError) -> bool {
        if !self.has_reported.swap(true, Ordering::Relaxed) {
            events::deadlock_search_failed(self.key, self.hold, error);
        }
        error.is_refused()
    }

    /// The holds that enclose the present poll in this process, and those that the acquisition already has.
    pub(super) fn enclosing(&self) -> Vec<Arc<Hold>> {
        let mut holds = scope::enclosing_holds(self.locks, ENCLOSING);
        let is_new = |hold: &&Arc<Hold>| !holds.iter().any(|known| Arc::ptr_eq(known, hold));
        let has: Vec<_> = self.has.iter().filter(is_new).map(Arc::clone).collect();
        holds.splice(..0, has);
        holds
    }

    /// The wait that is published for it. `None` if nothing encloses it.
    pub(super) fn wait(&self) -> Option<EnclosedWait> {
        let holds = self.enclosing();
        let own = holds.iter().map(|hold| Enclosing {
            hold: hold.id(),
            key: hold.key().as_str().into(),
        });
        let inside = self.inside.iter().rev().cloned();
        let enclosing: Vec<_> = own.chain(inside).take(ENCLOSING).collect();
        (!enclosing.is_empty()).then(|| EnclosedWait {
            id: self.hold,
            key: self.key.as_str().into(),
            enclosing,
        })
    }
}

impl fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("key", &self.key)
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}

/// The record of one wait, with each owner of a hold that encloses it.
pub(super) struct Publisher<'a> {
    waiting: &'a Waiting<'a>,
    records: Vec<Record>,
}

/// The record with one owner. It may be in the store as soon as its request was made.
#[derive(Clone, Copy, Debug)]
struct Record {
    owner: OwnerId,
    /// A time of the store that was read before the published state was observed.
    known: Option<StoreTime>,
}

impl<'a> Publisher<'a> {
    pub(super) fn new(waiting: &'a Waiting<'a>) -> Self {
        waiting.searches.begin();
        let wait = waiting.wait();
        let owners = wait.as_ref().map(owners).unwrap_or_default().into_iter();
        Self {
            waiting,
            records: owners.map(|owner| Record { owner, known: None }).collect(),
        }
    }

    /// The time from which the spans of a record are derived. It is the heartbeat, or twice the heartbeat if many waits
    /// are published.
    fn beat(&self) -> Duration {
        let heartbeat = self.waiting.heartbeat;
        if self.waiting.searches.are_many() {
            2 * heartbeat
        } else {
            heartbeat
        }
    }

    /// Publishes the wait, and repeats that until every record is stored.
    pub(super) async fn first(&mut self) {
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
    pub(super) async fn keep(mut self) -> Infallible {
        let mut begun = Instant::now();
        loop {
            self.pause(begun).await;
            begun = Instant::now();
            self.publish().await;
        }
    }

    /// Waits until the wait must be published again.
    async fn pause(&self, begun: Instant) {
        sleep_until(after(begun, self.beat() / 4)).await;
    }

    /// Publishes the wait. Returns whether it is enclosed and every record is stored. If the store fails, it waits for
    /// another heartbeat. If the store rejects records, it waits for ever.
    async fn publish(&mut self) -> bool {
        let searches = self.waiting.searches;
        // This comes before the published state is observed.
        for record in &mut self.records {
            record.known = searches.known(record.owner);
        }
        let wait = self.waiting.wait();
        let owners = wait.as_ref().map(owners).unwrap_or_default();
        // The future may have been moved out of a body that enclosed it before.
        let left = |record: &mut Record| !owners.contains(&record.owner);
        let left: Vec<_> = self.records.extract_if(.., left).collect();
        self.withdraw(left);
        let Some(wait) = wait.map(Arc::new) else {
            return false;
        };
        let life = 2 * self.beat();
        let published = owners.into_iter().map(|owner| {
            let (wait, known) = (Arc::clone(&wait), self.known(owner));
            searches.publish(PublishWait {
                owner,
                wait,
                life,
                known,
            })
        });
        let published: Vec<_> = published.collect();
        let answers = join_all(published).await.into_iter();
        match answers.collect::<Result<Vec<_>, _>>() {
            Ok(answers) => answers.iter().all(|it| matches!(it, WaitAnswer::Done(_))),
            Err(error) if self.waiting.has_refused(&error) => pending().await,
            Err(_) => {
                sleep(self.beat()).await;
                false
            }
        }
    }

    /// The time of the store that was known before the record with this owner was made. The record counts as stored
    /// from now on.
    fn known(&mut self, owner: OwnerId) -> Option<StoreTime> {
        let mut records = self.records.iter();
        match records.find(|record| record.owner == owner) {
            Some(record) => record.known,
            None => {
                self.records.push(Record { owner, known: None });
                None
            }
        }
    }

    fn withdraw(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let Waiting { searches, hold, .. } = *self.waiting;
        let records = records.iter().map(|record| (record.owner, hold));
        let runtime = Handle::try_current();
        let runtime = runtime.as_ref().unwrap_or(self.waiting.runtime);
        searches.withdraw(runtime, records);
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
        let records = mem::take(&mut self.records);
        self.withdraw(records);
        self.waiting.searches.end();
    }
}
