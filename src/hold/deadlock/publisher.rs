//! The publisher of the record of a wait: it keeps the record in the store, and removes it at the end.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::published::Counted;
use super::waiting::Waiting;
use crate::base::id::OwnerId;
use crate::base::timer::{after, sleep, sleep_until};
use crate::store::records::{EnclosedWait, WaitAnswer};
use crate::store::{PublishWait, StoreTime};

/// The record of one wait, with each owner of a hold that encloses it.
pub(super) struct Publisher<'a> {
    waiting: &'a Waiting<'a>,
    counted: Counted,
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
        let wait = waiting.wait();
        let owners = wait.as_ref().map(owners).unwrap_or_default().into_iter();
        Self {
            waiting,
            counted: waiting.searches.published.enter(),
            records: owners.map(|owner| Record { owner, known: None }).collect(),
        }
    }

    /// The time from which the spans of a record are derived. It is the heartbeat, or twice the heartbeat if many waits
    /// are published.
    fn beat(&self) -> Duration {
        let heartbeat = self.waiting.heartbeat;
        if self.counted.are_many() {
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
        let records = std::mem::take(&mut self.records);
        self.withdraw(records);
    }
}
