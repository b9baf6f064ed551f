//! The end of a hold: sent until it is answered. The lock goes to the first in line, in the same
//! request, or to another process whose turn it is.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::Shared};
use tokio::{runtime, time::Instant};

use super::{
    Entering, Queue,
    attempt::{Attempt, Outcome},
    line::Line,
    waiter::Waiter,
};
use crate::{
    base::{
        backoff::pauses,
        error::{Effect, Failure, LostReason},
        events,
        id::HoldId,
        key::LockKey,
        timer::sleep,
    },
    store::{Order, Presence, ReleaseReply, ReleaseRequest, Successor, TOMBSTONE_LIFE},
};

/// A hold that is to end.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    /// Whether an acquire of the hold was never answered.
    pub(crate) tombstone: bool,
    /// Until when the lease lasts for certain.
    pub(crate) deadline: Instant,
    /// How long the lock may stand in the store after the last request about it.
    pub(crate) ttl: Duration,
    /// Where it is sent from.
    pub(crate) runtime: runtime::Id,
}

/// A release in flight: how it ended, and what became of the successor. For the latter it is an
/// attempt; so both of them move it on.
type Flight = Shared<Pin<Box<dyn Future<Output = (Result<(), Failure>, Outcome)> + Send>>>;

/// The first in line, named as successor by a release that has not been sent yet.
struct Nominee {
    waiter: Arc<Waiter>,
    flight: Flight,
    attempt: Attempt,
}

/// A release under way: at its end nobody counts as the holder any more.
struct Passing {
    queue: Arc<Queue>,
    key: LockKey,
    holder: HoldId,
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.queue.with_line(&self.key, |line| {
            if line.holder() == Some(self.holder) {
                line.pass(self.holder, None);
                line.kick();
            }
        });
    }
}

impl Queue {
    /// Releases. Fails if the lock turns out to have been lost before, or if it could not be released
    /// at all and stands until its lease ends.
    ///
    /// Should this never be finished, because its runtime ends or stands still, then nobody waits for it.
    pub(crate) fn release(
        self: &Arc<Self>,
        release: Release,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.with_line(&release.key, |line| {
            line.counts_until(release.hold, Some(release.deadline));
        });
        let passing = Passing {
            queue: Arc::clone(self),
            key: release.key.clone(),
            holder: release.hold,
        };
        let queue = Arc::clone(self);
        async move { queue.pass_on(release, passing).await }
    }

    async fn pass_on(
        self: &Arc<Self>,
        release: Release,
        mut passing: Passing,
    ) -> Result<(), Failure> {
        let key = release.key.clone();
        let Some(nominee) = self.nominate(&release).await else {
            let (ended, _) = self.end(&release, None).await;
            drop(passing);
            self.kick(&key);
            return ended;
        };
        passing.holder = nominee.waiter.hold();
        let (ended, outcome) = nominee.flight.await;
        let waiter = nominee.waiter;
        match outcome {
            Outcome::Held(won) => {
                waiter.serve(self, won);
                passing.holder = release.hold;
            }
            outcome => {
                self.with_line(&key, |line| line.pass(waiter.hold(), None));
                passing.holder = release.hold;
                waiter.settle(self, &nominee.attempt);
                // In the queue it is told when it has its turn; else it has to ask.
                if !(matches!(outcome, Outcome::Busy { .. }) && self.listen()) {
                    self.kick(&key);
                }
            }
        }
        ended
    }

    /// Names the first in line as successor, unless its own attempt brings it the lock. There is one
    /// request of a process for a key at a time, so an attempt in flight is awaited.
    async fn nominate(self: &Arc<Self>, release: &Release) -> Option<Nominee> {
        loop {
            let nominated = self.with_line(&release.key, |line| {
                let nominated = self.name_first(release, line);
                let next = match &nominated {
                    Some(Ok(nominee)) => Some(nominee.waiter.hold()),
                    Some(Err(_)) => return nominated,
                    None => None,
                };
                line.pass(release.hold, next);
                nominated
            });
            match nominated?? {
                Ok(nominee) => return Some(nominee),
                Err((waiter, attempt)) => match attempt.clone().await {
                    Outcome::Busy { .. } | Outcome::Unanswered => waiter.settle(self, &attempt),
                    Outcome::Held(_) | Outcome::Failed(_) => return None,
                },
            }
        }
    }

    /// `None` if nobody waits there who could be named; an error is the attempt to wait for.
    fn name_first(
        self: &Arc<Self>,
        release: &Release,
        line: &Line,
    ) -> Option<Result<Nominee, (Arc<Waiter>, Attempt)>> {
        // The runtime of the release may stand still: no waiter on another one is made to wait for it.
        let waiter = line
            .first()
            .filter(|waiter| waiter.runtime().id() == release.runtime)?;
        let claim = waiter.claim();
        let pass = line.handoffs() >= self.queueing.local_handoffs;
        let order = if pass {
            Order::QueueFirst
        } else {
            Order::SuccessorFirst
        };
        let successor = Successor {
            hold: claim.hold,
            ttl: claim.ttl,
            tokens: claim.tokens,
            entry: claim.entry?,
            order,
        };
        let how = Entering::HandedOver(if pass { 0 } else { line.handoffs() + 1 });
        let (queue, release) = (Arc::clone(self), release.clone());
        let named = (Arc::clone(waiter), successor, how);
        let work: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(async move { queue.end(&release, Some(named)).await });
        let flight: Flight = work.shared();
        let outcome = flight.clone();
        let attempt = || {
            let outcome: Pin<Box<dyn Future<Output = Outcome> + Send>> =
                Box::pin(outcome.map(|(_, outcome)| outcome));
            outcome.shared()
        };
        let waiter = Arc::clone(waiter);
        match waiter.follow(attempt) {
            Ok(attempt) => Some(Ok(Nominee {
                waiter,
                flight,
                attempt,
            })),
            Err(Some(attempt)) => Some(Err((waiter, attempt))),
            Err(None) => None,
        }
    }

    /// `Gone` proves a loss only on the first attempt, since a repetition may meet its own success,
    /// and only before the deadline, since after it the lease may just have run out.
    ///
    /// Every repetition names the same successor: an earlier one may have given it the lock.
    async fn end(
        &self,
        release: &Release,
        named: Option<(Arc<Waiter>, Successor, Entering)>,
    ) -> (Result<(), Failure>, Outcome) {
        let &Release {
            ref key,
            hold,
            tombstone,
            deadline,
            ttl,
            ..
        } = release;
        let ending = ReleaseRequest {
            hold,
            inbox: self.inbox,
            tombstone,
            successor: named.as_ref().map(|(_, successor, _)| *successor),
        };
        let unsure = |failure| match &named {
            Some((waiter, ..)) => waiter.unsure(failure),
            None => Outcome::Unanswered,
        };
        let give_up = Instant::now()
            + if tombstone {
                ttl.max(TOMBSTONE_LIFE)
            } else {
                ttl
            };
        let mut pauses = pauses();
        let mut repetition = None;
        let mut repeats = false;
        loop {
            let first = !repeats;
            let (sent, epoch) = (Instant::now(), self.store.connection_epoch());
            let error = match self.store.release(key, ending).await {
                Ok(ReleaseReply {
                    presence,
                    successor,
                }) => {
                    let outcome = match (&named, successor) {
                        (Some((waiter, _, how)), Some(acquired)) => {
                            waiter.learn(sent, epoch, self.store.connection_epoch(), acquired, *how)
                        }
                        _ => unsure(None),
                    };
                    let ended = match presence {
                        Presence::Gone if first && Instant::now() < deadline => {
                            Err(Failure::Lost(LostReason::Gone))
                        }
                        Presence::Gone => Ok(()),
                        Presence::Present => {
                            events::released(key, hold);
                            Ok(())
                        }
                    };
                    return (ended, outcome);
                }
                Err(error) => error,
            };
            let pause = pauses.next().unwrap_or_default();
            if error.effect() == Effect::Refused || Instant::now() + pause >= give_up {
                events::release_abandoned(key, hold, &error);
                let outcome = unsure(Some(&error));
                return (Err(Failure::Store(error)), outcome);
            }
            events::release_retried(key, hold, &error);
            sleep(pause).await;
            // Given back only after the pause, so that the pauses of all together bound the rate; one
            // that is answered lets the next follow at once.
            repeats = true;
            drop(repetition.take());
            repetition = self.repetition().await;
        }
    }
}
