//! A waiter's own view of its line.

use std::sync::Arc;

use super::{
    Grant, Queue,
    attempt::{Heard, Outcome, Refusal},
    waiter::Waiter,
};
use crate::base::{error::StoreError, timer::timeout};

/// A place in line. Dropping it leaves the line and undoes what was asked for.
#[derive(Debug)]
pub(super) struct Place<'q> {
    queue: &'q Arc<Queue>,
    waiter: Arc<Waiter>,
    /// Whether it asks at once.
    asks: bool,
}

impl<'q> Place<'q> {
    pub(super) fn join(queue: &'q Arc<Queue>, waiter: Arc<Waiter>) -> Self {
        let asks = queue.join(&waiter);
        Self {
            queue,
            waiter,
            asks,
        }
    }

    /// What kept it from its lock up to now if it was not another holder.
    pub(super) fn failure(&self) -> Option<StoreError> {
        let heard = match self.waiter.heard() {
            Heard::Nothing => self.queue.heard(self.waiter.key()),
            heard => heard,
        };
        heard.failure()
    }

    /// Asks once, unless another one of this process waits for the lock.
    pub(super) async fn try_once(&self) -> Result<Grant, Refusal> {
        while let Some(first) = self.queue.ahead(&self.waiter) {
            if self.queue.is_named(&first) {
                // A release of this process is to bring it the lock, however long that takes.
                return Err(Refusal::Busy);
            }
            // What became of its request is not known, or it waits no longer and was not polled since.
            let attempt = match (first.present_attempt(), self.queue.heard(self.waiter.key())) {
                (Some(attempt), _) => Some(attempt),
                (None, Heard::Nothing) => first.attempt(self.queue),
                (None, heard) => return Err(heard.refusal()),
            };
            let Some(attempt) = attempt else {
                // It is leaving its line.
                tokio::task::yield_now().await;
                continue;
            };
            let outcome = attempt.clone().await;
            first.conclude(self.queue, &attempt, outcome);
        }
        match self.ask().await {
            Some(Outcome::Held(won)) => Ok(self.waiter.grant(self.queue, won)),
            Some(Outcome::Busy { .. } | Outcome::Unanswered) => Err(self.waiter.heard().refusal()),
            Some(Outcome::Failed(error)) => Err(Refusal::Failed(error)),
            None => self.served().await,
        }
    }

    /// Waits until it has its turn.
    pub(super) async fn turn(&self) -> Result<Grant, Refusal> {
        let mut busy = None;
        if self.asks {
            match self.ask().await {
                Some(Outcome::Held(won)) => return Ok(self.waiter.grant(self.queue, won)),
                Some(Outcome::Failed(error)) => return Err(Refusal::Failed(error)),
                Some(_) if self.queue.queueing.wake.is_exhausted(self.waiter.asked()) => {
                    return Err(Refusal::Late);
                }
                Some(Outcome::Busy { remaining }) => busy = remaining,
                Some(Outcome::Unanswered) | None => {}
            }
        }
        let mut turns = None;
        loop {
            if let Some(answer) = self.waiter.take_answer() {
                return answer;
            }
            self.queue.drive(&self.waiter, busy);
            let standstill = self.queue.queueing.standstill();
            if timeout(standstill, self.waiter.woken()).await.is_err() {
                turns = self.queue.relieve(self.waiter.key(), turns);
            }
            // The driver is gone with its runtime. If that is ours too, the next one goes the same
            // way, so let the shutdown have this task.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Makes the attempt of a waiter that stands alone. `None` if somebody else owns its outcome:
    /// whoever has served this one already.
    async fn ask(&self) -> Option<Outcome> {
        let attempt = self.waiter.attempt(self.queue)?;
        let outcome = attempt.clone().await;
        match &outcome {
            Outcome::Held(won) => {
                let entered = self.queue.enter(&self.waiter, won);
                entered.then_some(outcome)
            }
            Outcome::Failed(_) => {
                self.queue.leave(&self.waiter)?;
                self.waiter.withdraw(self.queue);
                Some(outcome)
            }
            Outcome::Busy { .. } | Outcome::Unanswered => {
                self.waiter.settle(self.queue, &attempt);
                Some(outcome)
            }
        }
    }

    /// Waits for the answer that somebody brings.
    async fn served(&self) -> Result<Grant, Refusal> {
        loop {
            if let Some(answer) = self.waiter.take_answer() {
                return answer;
            }
            self.waiter.woken().await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        match self.queue.leave(&self.waiter) {
            // What it leaves in the store goes to the next in line, who is told when it has.
            Some(0) => self.waiter.withdraw(self.queue),
            Some(_) => drop(self.waiter.undo(self.queue)),
            // A grant that was brought but not taken undoes itself.
            None => drop(self.waiter.take_answer()),
        }
    }
}
