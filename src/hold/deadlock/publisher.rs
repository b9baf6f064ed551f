//! The publisher of the record of a wait: it keeps the record in the store, and removes it at the end.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::published::Counted;
use super::searches::MOMENTS;
use super::waiting::Waiting;
use super::wanted::Unanswered;
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

    /// Publishes the wait, and repeats that until every record is stored. Never ends if the store rejects the records.
    pub(super) async fn first(&mut self) {
        loop {
            let begun = Instant::now();
            // A record is late if no time of the store is known, and the answer contains the time.
            for _ in 0..2 {
                let answers = self.publish();
                if self.heed(answers).await {
                    return;
                }
            }
            self.pause(begun).await;
        }
    }

    /// Publishes the wait periodically.
    pub(super) async fn keep(mut self) -> Infallible {
        self.pause(Instant::now()).await;
        loop {
            let begun = Instant::now();
            let answers = self.publish();
            self.pause(begun).await;
            // The answers have arrived by now. The task was not woken for them, because only a failure changes
            // anything.
            self.heed(answers).await;
        }
    }

    /// Waits until the wait must be published again.
    async fn pause(&self, begun: Instant) {
        let period = self.beat() / 4;
        let due = after(begun, period);
        sleep_until(self.waiting.searches.moment(due, period)).await;
    }

    /// Publishes the wait. Returns a receiver for each record.
    fn publish(&mut self) -> Vec<impl Future<Output = Result<WaitAnswer, Unanswered>> + use<>> {
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
            return Vec::new();
        };
        let life = 2 * self.beat();
        let publish = |owner| {
            let known = self.known(owner);
            let wait = Arc::clone(&wait);
            searches.publish(PublishWait {
                owner,
                wait,
                life,
                known,
            })
        };
        owners.into_iter().map(publish).collect()
    }

    /// Waits for these answers. Returns whether there are any and every record is stored. If the store failed, it waits
    /// for another heartbeat. If the store rejects records, it waits for ever.
    async fn heed(
        &self,
        answers: Vec<impl Future<Output = Result<WaitAnswer, Unanswered>>>,
    ) -> bool {
        let mut all_stand = !answers.is_empty();
        for answer in answers {
            match answer.await {
                Ok(answer) => all_stand &= matches!(answer, WaitAnswer::Done(_)),
                Err(Unanswered::Store(error)) if self.waiting.has_refused(&error) => {
                    pending().await
                }
                Err(_) => {
                    sleep(self.beat()).await;
                    return false;
                }
            }
        }
        all_stand
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
        let within = self.waiting.heartbeat / 4 / MOMENTS;
        searches.withdraw(runtime, within, records);
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
