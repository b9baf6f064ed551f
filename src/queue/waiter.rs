//! One waiter in a line, and its attempts at the lock.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use super::{
    Entering, Grant, Queue,
    attempt::{Attempt, Heard, Outcome, Refusal, Won, unanswered},
    notice::Reading,
};
use crate::{
    base::{
        deadline::deadline,
        error::{Effect, StoreError},
        events,
        id::HoldId,
        key::LockKey,
        mutex::Mutex,
    },
    store::{AcquireReply, AcquireRequest, HandoffMessage},
};

#[derive(Debug)]
pub(super) struct Waiter {
    key: LockKey,
    claim: AcquireRequest,
    runtime: Handle,
    /// Whether it waits for nothing but the answer to one question.
    asks_once: bool,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The present attempt, until its outcome has been dealt with.
    attempt: Option<Attempt>,
    asked: u32,
    /// Whether some attempt may still be executed, so that the hold needs a tombstone at its end.
    unanswered: bool,
    /// Whether the hold may stand in the store's queue.
    queued: bool,
    /// What the last answer told of the store's clock.
    reading: Option<Reading>,
    /// The news that the lock has moved here, while the answer to an attempt is awaited.
    notice: Option<HandoffMessage>,
    /// What the last attempt has told.
    heard: Heard,
    /// Whether it waits no more; no attempt is made from then on.
    ended: bool,
    /// What it is brought.
    answer: Option<Result<Grant, Refusal>>,
}

impl Waiter {
    pub(super) fn new(
        key: LockKey,
        claim: AcquireRequest,
        runtime: Handle,
        asks_once: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            claim,
            runtime,
            asks_once,
            state: Mutex::default(),
            wake: Notify::new(),
        })
    }

    pub(super) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(super) fn claim(&self) -> AcquireRequest {
        self.claim
    }

    pub(super) fn asks_once(&self) -> bool {
        self.asks_once
    }

    pub(super) fn hold(&self) -> HoldId {
        self.claim.hold
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many times the store was asked for this waiter.
    pub(super) fn asked(&self) -> u32 {
        self.state.lock().asked
    }

    pub(super) fn heard(&self) -> Heard {
        self.state.lock().heard.clone()
    }

    /// The attempt whose outcome has not been dealt with.
    pub(super) fn present_attempt(&self) -> Option<Attempt> {
        self.state.lock().attempt.clone()
    }

    /// The present attempt, or a new one; `None` once nobody waits any more, so that no request is
    /// made whose answer would be nobody's.
    pub(super) fn attempt(self: &Arc<Self>, queue: &Queue) -> Option<Attempt> {
        let mut state = self.state.lock();
        if state.attempt.is_some() || state.ended {
            return state.attempt.clone();
        }
        state.asked += 1;
        let request = queue.store.acquire(&self.key, self.claim);
        let (waiter, store) = (Arc::clone(self), Arc::clone(&queue.store));
        let asking: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move {
            let (sent, epoch) = (Instant::now(), store.connection_epoch());
            let answer = request.await;
            waiter.read(sent, epoch, store.connection_epoch(), answer)
        });
        let attempt = asking.shared();
        state.attempt = Some(attempt.clone());
        Some(attempt)
    }

    /// Lets a request stand for an attempt that names this waiter as successor. An error is the
    /// attempt that is in flight already, or none if it waits no more.
    pub(super) fn follow(
        &self,
        attempt: impl FnOnce() -> Attempt,
    ) -> Result<Attempt, Option<Attempt>> {
        let mut state = self.state.lock();
        if state.ended || state.attempt.is_some() {
            return Err(state.attempt.clone());
        }
        let attempt = attempt();
        state.attempt = Some(attempt.clone());
        Ok(attempt)
    }

    /// The outcome of `attempt` was no success and has been dealt with: the next one may be made. News
    /// that came after the answer was read, and before it was dealt with, are read now.
    pub(super) fn settle(self: &Arc<Self>, queue: &Arc<Queue>, attempt: &Attempt) {
        let (notice, heard) = {
            let mut state = self.state.lock();
            let present = state.attempt.as_ref();
            if !present.is_some_and(|present| present.ptr_eq(attempt)) {
                return;
            }
            state.attempt = None;
            (state.notice.take(), state.heard.clone())
        };
        queue.with_line(&self.key, |line| line.hear(heard));
        if let Some(moved) = notice {
            self.told(queue, moved);
        }
    }

    /// Deals with the outcome of its attempt, for a waiter that may not be polled.
    pub(super) fn conclude(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        attempt: &Attempt,
        outcome: Outcome,
    ) {
        let refusal = match outcome {
            Outcome::Held(won) => return self.serve(queue, won),
            Outcome::Failed(error) => Refusal::Failed(error),
            Outcome::Busy { .. } | Outcome::Unanswered => {
                self.settle(queue, attempt);
                let exhausted = queue.queueing.wake.is_exhausted(self.asked());
                match self.heard() {
                    // It would stand before the others for as long as nobody polls it.
                    heard if self.asks_once => heard.refusal(),
                    _ if exhausted => Refusal::Late,
                    _ => return,
                }
            }
        };
        if queue.leave(self).is_some() {
            self.refuse(queue, refusal);
        }
    }

    /// Runs once for each attempt, whoever polls it. The epochs are those of the request and of its
    /// answer.
    fn read(
        &self,
        sent: Instant,
        epoch: u64,
        now: u64,
        answer: Result<AcquireReply, StoreError>,
    ) -> Outcome {
        match answer {
            Ok(acquired) => self.learn(sent, epoch, now, acquired, Entering::Afresh),
            Err(error) => {
                let mut state = self.state.lock();
                state.heard = Heard::Failure(error.clone());
                state.unanswered |= error.effect() == Effect::Unknown;
                if error.effect() == Effect::Refused {
                    return Outcome::Failed(error);
                }
                events::acquire_retried(&self.key, &error);
                Outcome::Unanswered
            }
        }
    }

    /// Takes in what the store has told of this hold, in answer to a request that was sent at `sent` in
    /// this epoch; by now it is the epoch `present`.
    pub(super) fn learn(
        &self,
        sent: Instant,
        epoch: u64,
        present: u64,
        acquired: AcquireReply,
        how: Entering,
    ) -> Outcome {
        match acquired {
            AcquireReply::Held { tokens, lease } if Instant::now() < deadline(sent, lease) => {
                Outcome::Held(Won {
                    tokens,
                    sent,
                    lease,
                    how,
                })
            }
            AcquireReply::Held { .. } => {
                // The answer took longer than the lease. The store may hold the lock for us, and
                // only a fresh answer says for how long.
                let mut state = self.state.lock();
                state.unanswered = true;
                state.heard =
                    Heard::Failure(unanswered("the answer came after the lease had ended"));
                Outcome::Unanswered
            }
            AcquireReply::Busy { remaining, now } => {
                let mut state = self.state.lock();
                state.heard = Heard::Busy;
                state.queued |= self.claim.entry.is_some();
                let reading = Reading {
                    sent,
                    at: now,
                    epoch,
                };
                state.reading = Some(reading);
                let Some(moved) = state.notice.take() else {
                    return Outcome::Busy { remaining };
                };
                // The lock moved here after this answer was given; the news was faster.
                match reading.lease_start(&moved, present, Instant::now()) {
                    Some(start) => Outcome::Held(Won::moved(&moved, start)),
                    None => Outcome::Busy {
                        remaining: Some(Duration::ZERO),
                    },
                }
            }
            // Only a hold that has ended meets its tombstone, and nobody waits for that answer.
            AcquireReply::Ended => Outcome::Busy { remaining: None },
        }
    }

    /// A release that was to hand the lock to this hold has left it open what became of it.
    pub(super) fn unsure(&self, failure: Option<&StoreError>) -> Outcome {
        let mut state = self.state.lock();
        state.queued = true;
        if let Some(error) = failure {
            state.heard = Heard::Failure(error.clone());
        }
        Outcome::Unanswered
    }

    /// The lock has moved to this waiter.
    pub(super) fn told(self: &Arc<Self>, queue: &Arc<Queue>, moved: HandoffMessage) {
        let start = {
            let mut state = self.state.lock();
            if state.attempt.is_some() {
                // The answer that is awaited is to be read first: it belongs to somebody.
                state.notice = Some(moved);
                return;
            }
            let reading = state.reading.filter(|_| !state.ended);
            let epoch = queue.store.connection_epoch();
            let start =
                reading.and_then(|reading| reading.lease_start(&moved, epoch, Instant::now()));
            // From here on no attempt is made.
            state.ended |= start.is_some();
            start
        };
        match start {
            Some(start) => self.serve(queue, Won::moved(&moved, start)),
            None => queue.kick(&self.key),
        }
    }

    /// Lets the waiter have another one's hold, unless the store may know it by its own. From then on
    /// no attempt is made.
    pub(super) fn inherits(&self) -> bool {
        let mut state = self.state.lock();
        let known = state.attempt.is_some() || state.queued || state.unanswered;
        let inherits = !known && !state.ended;
        state.ended |= inherits;
        inherits
    }

    /// Brings the waiter its lock, if it still stands in its line.
    pub(super) fn serve(self: &Arc<Self>, queue: &Arc<Queue>, won: Won) {
        if queue.enter(self, &won) {
            self.bring(queue, self.grant(queue, won));
        }
    }

    /// Brings the waiter its lock. Only for the one who has taken it out of its line.
    pub(super) fn bring(self: &Arc<Self>, queue: &Queue, grant: Grant) {
        self.answer(Ok(grant));
        queue.expect(self);
    }

    /// Whether it has a lock that it has not come for.
    pub(super) fn is_brought(&self) -> bool {
        matches!(self.state.lock().answer, Some(Ok(_)))
    }

    /// The lock is held for this waiter. Only for the one who has taken it out of its line.
    pub(super) fn grant(&self, queue: &Arc<Queue>, won: Won) -> Grant {
        let AcquireRequest { hold, ttl, .. } = self.claim;
        let Won {
            tokens,
            sent,
            lease,
            ..
        } = won;
        Grant {
            queue: Arc::clone(queue),
            key: self.key.clone(),
            hold,
            tokens,
            sent,
            lease,
            ttl,
            unanswered: self.state.lock().unanswered,
            runtime: self.runtime.clone(),
            turn: None,
            entered: false,
        }
    }

    /// Answers. Only for the one who has taken the waiter out of its line.
    fn answer(&self, answer: Result<Grant, Refusal>) {
        self.state.lock().answer = Some(answer);
        self.wake.notify_one();
    }

    pub(super) fn take_answer(&self) -> Option<Result<Grant, Refusal>> {
        self.state.lock().answer.take()
    }

    pub(super) fn nudge(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }
}

#[cfg(test)]
mod tests;
mod undo;
