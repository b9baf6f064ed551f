//! What keeps the record of a wait in the store, and takes it back at the end.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::waiting::{Counted, Waiting};
use crate::base::id::OwnerId;
use crate::base::timer::{after, sleep, sleep_until};
use crate::store::records::Published;
use crate::store::{PublishWait, StoreTime, WithdrawWait};

/// The record of one wait, with each owner of a hold that encloses it.
pub(super) struct Publisher<'a> {
    waiting: &'a Waiting<'a>,
    counted: Counted,
    records: Vec<Record>,
}

/// The record with one owner. It may be there as soon as it was asked for.
#[derive(Debug)]
struct Record {
    owner: OwnerId,
    known: Option<KnownTime>,
}

/// A time of the store that was read on a connection.
#[derive(Clone, Copy, Debug)]
struct KnownTime {
    at: StoreTime,
    epoch: u64,
}

/// Why a record was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishFailure {
    /// The store failed, and may answer later.
    Passing,
    /// It refuses records for good.
    Refused,
}

impl<'a> Publisher<'a> {
    pub(super) fn new(waiting: &'a Waiting<'a>) -> Self {
        Self {
            waiting,
            counted: waiting.count.enter(),
            records: Vec::new(),
        }
    }

    /// The time from which the spans of a record are reckoned: the heartbeat, or twice that where there are many.
    fn beat(&self) -> Duration {
        let heartbeat = self.waiting.heartbeat;
        if self.counted.are_many() {
            2 * heartbeat
        } else {
            heartbeat
        }
    }

    /// Publishes the wait, and again until every record stands. Never ends if the store refuses.
    pub(super) async fn first(&mut self) {
        loop {
            let begun = Instant::now();
            let published = self.publish().await;
            if published == Ok(true) {
                return;
            }
            self.pause(begun, published).await;
        }
    }

    /// Publishes it again and again.
    pub(super) async fn keep(mut self) -> Infallible {
        let (mut begun, mut published) = (Instant::now(), Ok(true));
        loop {
            self.pause(begun, published).await;
            begun = Instant::now();
            published = self.publish().await;
        }
    }

    /// Waits until the wait must be published again.
    async fn pause(&self, begun: Instant, published: Result<bool, PublishFailure>) {
        match published {
            Ok(_) => sleep_until(after(begun, self.beat() / 4)).await,
            Err(PublishFailure::Passing) => sleep(self.beat()).await,
            Err(PublishFailure::Refused) => pending().await,
        }
    }

    /// Publishes it once. Returns whether every record stands.
    async fn publish(&mut self) -> Result<bool, PublishFailure> {
        let mut owners: Vec<OwnerId> = Vec::new();
        for enclosing in self.waiting.wait().iter().flat_map(|wait| &wait.enclosing) {
            let owner = enclosing.hold.owner();
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        // The future may have been moved out of a body that enclosed it before.
        let left = |record: &mut Record| !owners.contains(&record.owner);
        let left: Vec<_> = self.records.extract_if(.., left).collect();
        withdraw(self.waiting, left);
        let mut all_stand = !owners.is_empty();
        for owner in owners {
            // The first one is refused where no time of the store is known, and tells it.
            let stands = self.publish_with(owner).await? || self.publish_with(owner).await?;
            all_stand &= stands;
        }
        Ok(all_stand)
    }

    /// Makes the record with one owner. Returns whether it stands.
    async fn publish_with(&mut self, owner: OwnerId) -> Result<bool, PublishFailure> {
        // Anew for each request: it must have been true after the known time was read.
        let Some(wait) = self.waiting.wait() else {
            return Ok(false);
        };
        let store = self.waiting.queues.store();
        let epoch = store.connection_epochs();
        let known = self.record(owner).known;
        let published = store.ask(PublishWait {
            owner,
            wait: Arc::new(wait),
            life: 2 * self.beat(),
            // Another server may answer by now, with another clock.
            known: known
                .filter(|known| known.epoch == epoch)
                .map(|known| known.at),
        });
        let (at, stands) = match published.await {
            Ok(Published::Made(at)) => (at, true),
            Ok(Published::Refused(at)) => (at, false),
            Err(error) if self.waiting.has_refused(&error) => return Err(PublishFailure::Refused),
            Err(_) => return Err(PublishFailure::Passing),
        };
        self.record(owner).known = Some(KnownTime { at, epoch });
        Ok(stands)
    }

    fn record(&mut self, owner: OwnerId) -> &mut Record {
        let mut records = self.records.iter();
        let at = records.position(|record| record.owner == owner);
        let at = at.unwrap_or_else(|| {
            self.records.push(Record { owner, known: None });
            self.records.len() - 1
        });
        &mut self.records[at]
    }
}

/// Takes records back, in the background. Where that fails, they end by themselves.
fn withdraw(waiting: &Waiting<'_>, records: Vec<Record>) {
    if records.is_empty() {
        return;
    }
    let (store, wait) = (Arc::clone(waiting.queues.store()), waiting.hold);
    let runtime = Handle::try_current();
    let runtime = runtime.as_ref().unwrap_or(waiting.runtime);
    drop(runtime.spawn(async move {
        for record in records {
            let owner = record.owner;
            drop(store.ask(WithdrawWait { owner, wait }).await);
        }
    }));
}

impl Drop for Publisher<'_> {
    fn drop(&mut self) {
        withdraw(self.waiting, std::mem::take(&mut self.records));
    }
}
