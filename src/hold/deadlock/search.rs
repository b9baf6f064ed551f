//! The search of one wait: what it publishes, when it walks, and what it looks up.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::time::Instant;

use super::waiting::{Publisher, Waiting};
use super::walk::{Cycle, SecondWalk, Verdict, Walk, WalkResult, WalkStep};
use crate::base::error::{Blocked, LockError, StoreError};
use crate::base::events;
use crate::base::key::LockKey;
use crate::base::timer::{after, sleep, sleep_until};
use crate::store::verbs::description::Processes;
use crate::store::{ClaimVictim, Store};

/// The number of repetitions of a second walk while some wait of the cycle was not published again.
const TRIES: u32 = 6;

/// The time for which the error waits for the descriptions of the processes.
const DESCRIBED_WITHIN: Duration = Duration::from_millis(100);

/// The result of both walks of a wait.
enum Walked {
    /// This wait must give way.
    Victim(Cycle),
    /// There was a cycle. A part of it has gone, or is about to go. Other cycles that include this wait were not
    /// searched for.
    Changed,
    Nothing,
}

impl Waiting<'_> {
    /// Resolves if the wait is part of a deadlock and must give way, and never otherwise.
    pub(super) async fn search(self) -> LockError {
        let mut publisher = Publisher::new(&self);
        // This comes before the first walk: of the waits that wait for each other, the last one sees all others.
        publisher.first().await;
        select! {
            biased;
            error = self.walks() => error,
            never = publisher.keep() => match never {},
        }
    }

    fn store(&self) -> &Arc<Store> {
        self.queues.store()
    }

    /// Walks immediately, and then two, four, eight … heartbeats after the wait began. After a walk that has seen a
    /// cycle, it walks again soon.
    async fn walks(&self) -> LockError {
        let (heartbeat, since) = (self.heartbeat, self.since);
        let mut due = 2 * heartbeat;
        loop {
            let walked = self.walk().await;
            let now = Instant::now();
            let next = match walked {
                Ok(Walked::Victim(cycle)) => return self.give_way(&cycle).await,
                Ok(Walked::Nothing) => {
                    while after(since, due) <= now {
                        due = due.saturating_mul(2);
                    }
                    after(since, due)
                }
                // The wait stays published, so that other waits of a cycle may find it.
                Err(error) if self.has_refused(&error) => pending().await,
                Ok(Walked::Changed) | Err(_) => after(now, heartbeat / 4),
            };
            sleep_until(next).await;
        }
    }

    async fn walk(&self) -> Result<Walked, StoreError> {
        let searches = self.searches;
        let epoch = self.store().generation();
        let Some(wait) = self.wait() else {
            return Ok(Walked::Nothing);
        };
        let mut walk = Walk::new(wait);
        let cycle = loop {
            match walk.step() {
                WalkStep::Ask(question) => walk.see(searches.look(&question).await?),
                WalkStep::Done(WalkResult::Pause) => sleep(searches.pause(self.heartbeat)).await,
                WalkStep::Done(WalkResult::Nothing) => return Ok(Walked::Nothing),
                WalkStep::Done(WalkResult::Cycle(cycle)) => break cycle,
            }
        };
        let ended = Instant::now();
        // The longest heartbeat of the cycle.
        let beat = cycle.beat(self.heartbeat);
        let mut next = after(ended, beat / 4 * 3);
        for _ in 0..TRIES {
            sleep_until(next).await;
            next = after(Instant::now(), beat / 4);
            match self.second_walk(&cycle, ended).await? {
                Verdict::Deadlock if self.store().generation() == epoch => {
                    let is_victim = self.claim(&cycle, beat).await?;
                    return Ok(if is_victim {
                        Walked::Victim(cycle)
                    } else {
                        Walked::Changed
                    });
                }
                Verdict::Unsure => {}
                // Times of two servers cannot be compared.
                Verdict::Deadlock | Verdict::Gone => break,
            }
        }
        Ok(Walked::Changed)
    }

    async fn second_walk(&self, cycle: &Cycle, ended: Instant) -> Result<Verdict, StoreError> {
        let mut walk = SecondWalk::new(cycle, ended);
        let verdict = loop {
            match walk.step() {
                WalkStep::Ask(question) => walk.see(&self.searches.look(&question).await?),
                WalkStep::Done(verdict) => break verdict,
            }
        };
        // The hold that closes the cycle may have ended, or may no longer enclose this wait.
        let wait = self.wait();
        let is_enclosed = wait.is_some_and(|wait| wait.enclosed_by(cycle.closes).is_some());
        Ok(if is_enclosed { verdict } else { Verdict::Gone })
    }

    /// Returns whether this wait is the one of the cycle that gives way.
    async fn claim(&self, cycle: &Cycle, beat: Duration) -> Result<bool, StoreError> {
        let victim = self.hold;
        let claimed = self.store().ask(ClaimVictim {
            victim,
            others: cycle.waits().filter(|wait| *wait != victim).collect(),
            life: 4 * beat,
        });
        claimed.await
    }

    /// Gives way as the victim: its locks go to the waiters behind them, and not to itself when it tries again.
    async fn give_way(&self, cycle: &Cycle) -> LockError {
        let owners = cycle.blocked().map(|(wait, _)| wait.id.owner().process());
        let processes = self.store().processes(owners, DESCRIBED_WITHIN).await;
        for hold in self.enclosing() {
            hold.state.lock().gives_way = true;
        }
        let key = self.key;
        let cycle = blocked(cycle, key, &processes);
        let key = key.name().to_owned();
        let error = LockError::Deadlock { key, cycle };
        events::deadlock(self.key, self.hold, &error);
        error
    }
}

/// The cycle as its victim reports it. Keys of other prefixes are given in full.
fn blocked(cycle: &Cycle, key: &LockKey, processes: &Processes) -> Vec<Blocked> {
    let prefix = key.as_str().strip_suffix(key.name()).unwrap_or_default();
    let name = |key: &str| key.strip_prefix(prefix).unwrap_or(key).to_owned();
    let blocked = cycle.blocked().map(|(wait, holds)| Blocked {
        owner: wait.id.owner().to_string(),
        process: processes.get(wait.id.owner().process()).cloned(),
        holds: name(holds),
        waits_for: name(&wait.key),
    });
    blocked.collect()
}
