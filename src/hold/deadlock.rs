//! The detection of deadlocks. An acquisition that waits while its call graph holds other locks may wait for itself, by
//! way of others. It publishes its wait, searches for a cycle among the waits of all processes, and gives way if it is
//! chosen.
//!
//! Of the waits that wait for each other, the last to publish walks after all others have published, so the cycle is
//! found. It is confirmed by a second walk ([`walk`]). Every wait of a cycle may find it. A claim in the store decides
//! which one gives way.
//!
//! An acquisition that nothing encloses does not take part. An enclosed one arms one timer after its first request is
//! answered and it has to wait. The search begins a quarter of a heartbeat after the acquisition began.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::select;
use tokio::time::Instant;

use self::directory::STEPS_PER_HEARTBEAT;
use self::walk::{Cycle, SecondWalk, Verdict, Walk, WalkResult, WalkStep};
use crate::base::error::{Blocked, LockError, StoreError};
use crate::base::events;
use crate::base::id::{HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::process::{Process, ProcessId};
use crate::base::timer::{after, sleep, sleep_until};
use crate::hold::core::Core;
use crate::hold::hold::Hold;
use crate::hold::scope;
use crate::store::{ClaimVictim, EnclosedWait, OuterHold, PublishWait, UpdateWaitReply};

pub(super) mod directory;
mod walk;

#[cfg(test)]
mod tests;

/// The number of repetitions of a second walk while some wait of the cycle was not published again.
const SECOND_WALK_ATTEMPTS: u32 = 6;

/// The time for which the error waits for the descriptions of the processes.
const DESCRIBED_WITHIN: Duration = Duration::from_millis(100);

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

/// Waits for a lock, unless that is a deadlock and this wait is chosen to give way.
///
/// Dropping it removes what was published, in the background.
pub(crate) async fn acquire_unless_deadlock<T>(
    mut acquiring: Pin<&mut impl Future<Output = Result<T, LockError>>>,
    wait: NestedWait<'_>,
) -> Result<T, LockError> {
    // It is certain to be polled when its first request is answered, so no timer is needed until then.
    let queues = &wait.core.queues;
    let first = poll_fn(|cx| match acquiring.as_mut().poll(cx) {
        Poll::Ready(acquired) => Poll::Ready(Some(acquired)),
        Poll::Pending if queues.is_alone_at(wait.key, wait.hold) => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(acquired) = first.await {
        return acquired;
    }
    // Most waits end before they need a search.
    let search_at = after(wait.since, wait.heartbeat / STEPS_PER_HEARTBEAT);
    select! {
        biased;
        acquired = &mut acquiring => return acquired,
        () = sleep_until(search_at) => {}
    }
    select! {
        biased;
        // The lock comes before the error: a wait that gets it gives nothing up.
        acquired = acquiring => acquired,
        error = Box::pin(wait.search()) => Err(error),
    }
}

/// The result of both walks of a wait.
enum SearchResult {
    /// This wait must give way.
    Victim(Cycle),
    /// There was a cycle. A part of it has gone, or is about to go. Other cycles that include this wait were not
    /// searched for.
    Changed,
    Nothing,
}

impl NestedWait<'_> {
    /// Resolves if the wait is part of a deadlock and must give way, and never otherwise.
    async fn search(self) -> LockError {
        // However the search ends, dropping the publisher removes the records (P7).
        let mut publisher = Publisher::new(&self);
        // This comes before the first walk: of the waits that wait for each other, the last one sees all others.
        publisher.publish_first().await;
        select! {
            biased;
            error = self.walk_until_victim() => error,
            never = publisher.republish() => match never {},
        }
    }

    /// Walks immediately, and then two, four, eight … heartbeats after the wait began. After a walk that has seen a
    /// cycle, it walks again soon.
    async fn walk_until_victim(&self) -> LockError {
        let (heartbeat, since) = (self.heartbeat, self.since);
        let mut due = 2 * heartbeat;
        loop {
            let walked = self.walk().await;
            let now = Instant::now();
            let next = match walked {
                Ok(SearchResult::Victim(cycle)) => return self.give_way(&cycle).await,
                Ok(SearchResult::Nothing) => {
                    // A walk may take longer than to the next of these times.
                    while after(since, due) <= now {
                        due = due.saturating_mul(2);
                    }
                    after(since, due)
                }
                // The wait stays published, so that other waits of a cycle may find it.
                Err(error) if self.report_failure(&error) => pending().await,
                Ok(SearchResult::Changed) | Err(_) => after(now, heartbeat / STEPS_PER_HEARTBEAT),
            };
            sleep_until(next).await;
        }
    }

    async fn walk(&self) -> Result<SearchResult, StoreError> {
        let (store, directory) = (&self.core.store, &self.core.waits);
        // Read before the first lookup: if it is the same after the second walk, no server was replaced in between.
        let generation = store.generation();
        // A wait that was moved out of its body is enclosed by nothing any more.
        let Some(record) = self.record() else {
            return Ok(SearchResult::Nothing);
        };
        // The first walk finds a cycle that may never have existed as a whole.
        let mut walk = Walk::new(record);
        let cycle = loop {
            match walk.step() {
                WalkStep::Ask(lookup) => walk.receive(directory.lookup(&lookup).await?),
                WalkStep::Done(WalkResult::Pause) => sleep(directory.pause(self.heartbeat)).await,
                WalkStep::Done(WalkResult::Nothing) => return Ok(SearchResult::Nothing),
                WalkStep::Done(WalkResult::Cycle(cycle)) => break cycle,
            }
        };
        let ended = Instant::now();
        // The second walk finds out whether it did. By then, each of its waits was published again, also
        // the one with the longest heartbeat.
        let heartbeat = cycle.longest_heartbeat(self.heartbeat);
        let step = heartbeat / STEPS_PER_HEARTBEAT;
        let mut next = after(ended, heartbeat - step);
        // A wait that is not published yet may only be late, so the walk is repeated for a while.
        for _ in 0..SECOND_WALK_ATTEMPTS {
            sleep_until(next).await;
            next = after(Instant::now(), step);
            match self.second_walk(&cycle, ended).await? {
                Verdict::Deadlock if store.generation() == generation => {
                    // Every wait of the cycle may have found it. The store decides which one gives way.
                    return Ok(match self.claim(&cycle, heartbeat).await? {
                        true => SearchResult::Victim(cycle),
                        // Another wait gives way, so this cycle is about to go.
                        false => SearchResult::Changed,
                    });
                }
                Verdict::Unsure => {}
                // Times of two servers cannot be compared.
                Verdict::Deadlock | Verdict::Gone => break,
            }
        }
        Ok(SearchResult::Changed)
    }

    async fn second_walk(&self, cycle: &Cycle, ended: Instant) -> Result<Verdict, StoreError> {
        let mut walk = SecondWalk::new(cycle, ended);
        let verdict = loop {
            match walk.step() {
                WalkStep::Ask(lookup) => walk.receive(&self.core.waits.lookup(&lookup).await?),
                WalkStep::Done(verdict) => break verdict,
            }
        };
        // The hold that closes the cycle may have ended, or may no longer enclose this wait.
        let record = self.record();
        let is_enclosed = record.is_some_and(|it| it.is_enclosed_by(cycle.closes));
        Ok(if is_enclosed { verdict } else { Verdict::Gone })
    }

    /// Returns whether this wait is the one of the cycle that gives way.
    async fn claim(&self, cycle: &Cycle, heartbeat: Duration) -> Result<bool, StoreError> {
        let victim = self.hold;
        let claimed = self.core.store.ask(ClaimVictim {
            victim,
            others: cycle.waits().filter(|wait| *wait != victim).collect(),
            life: 4 * heartbeat,
        });
        claimed.await
    }

    /// Gives way as the victim.
    async fn give_way(&self, cycle: &Cycle) -> LockError {
        let owners = cycle.blocked().map(|(wait, _)| wait.id.owner().process());
        let processes = self.core.store.processes(owners, DESCRIBED_WITHIN).await;
        let cycle = blocked(cycle, self.key, &processes);
        let key = self.key.name().to_owned();
        let error = LockError::Deadlock { key, cycle };
        events::deadlock(self.key, self.hold, &error);
        error
    }
}

impl NestedWait<'_> {
    /// Reports the first failure of the search. Returns whether the store rejects the requests permanently.
    fn report_failure(&self, error: &StoreError) -> bool {
        if !self.has_reported.swap(true, Ordering::Relaxed) {
            events::deadlock_search_failed(self.key, self.hold, error);
        }
        error.is_denied()
    }

    /// The holds that enclose the present poll in this process, and those that the acquisition already has.
    fn enclosing(&self) -> Vec<Arc<Hold>> {
        let mut holds = scope::enclosing_holds(self.core, MAX_ENCLOSING);
        let is_new = |hold: &&Arc<Hold>| !holds.iter().any(|known| Arc::ptr_eq(known, hold));
        let acquired = self.acquired.iter().filter(is_new);
        let acquired: Vec<_> = acquired.cloned().collect();
        // They come first, because they are inside all others.
        holds.splice(..0, acquired);
        holds
    }

    /// The record that is published for it. `None` if nothing encloses it.
    fn record(&self) -> Option<EnclosedWait> {
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
struct Publisher<'a> {
    wait: &'a NestedWait<'a>,
    /// The owners whose records may be in the store.
    owners: BTreeSet<OwnerId>,
}

impl<'a> Publisher<'a> {
    fn new(wait: &'a NestedWait<'a>) -> Self {
        wait.core.waits.published.fetch_add(1, Ordering::Relaxed);
        let owners = BTreeSet::new();
        Self { wait, owners }
    }

    fn heartbeat(&self) -> Duration {
        let directory = &self.wait.core.waits;
        directory.publishing_heartbeat(self.wait.heartbeat)
    }

    /// Publishes the wait, and repeats that until every record is stored.
    async fn publish_first(&mut self) {
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
    async fn republish(mut self) -> Infallible {
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
        let enclosing = wait.iter().flat_map(|wait| &wait.enclosing);
        let owners: BTreeSet<_> = enclosing.map(|it| it.hold.owner()).collect();
        // The future may have been moved out of a body that enclosed it before. The owners are noted before the
        // requests are sent. So if this future is dropped, what they have stored is removed.
        let before = mem::replace(&mut self.owners, owners.clone());
        self.withdraw(&(&before - &owners));
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

    fn withdraw(&self, owners: &BTreeSet<OwnerId>) {
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

impl Drop for Publisher<'_> {
    fn drop(&mut self) {
        self.withdraw(&self.owners);
        let published = &self.wait.core.waits.published;
        published.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The cycle as its victim reports it. Keys of other prefixes are given in full.
fn blocked(cycle: &Cycle, key: &LockKey, processes: &HashMap<ProcessId, Process>) -> Vec<Blocked> {
    let prefix = key.as_str().strip_suffix(key.name()).unwrap_or_default();
    let name = |key: &str| key.strip_prefix(prefix).unwrap_or(key).to_owned();
    let blocked = cycle.blocked().map(|(wait, holds)| Blocked {
        owner: wait.id.owner().to_string(),
        process: processes.get(&wait.id.owner().process()).cloned(),
        holds: name(holds),
        waits_for: name(&wait.key),
    });
    blocked.collect()
}
