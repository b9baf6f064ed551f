//! One waiter in a line, and its attempts at the lock.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::Shared};
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use super::{Grant, Queue, Release};
use crate::{
    error::{Effect, StoreError},
    id::FencingToken,
    key::LockKey,
    lease,
    mutex::Mutex,
    releaser::Handover,
    report,
    store::{Acquired, Claim},
};

/// A request in flight. Whoever polls it moves it on: its waiter, the driver, or the task that
/// undoes it after the waiter was dropped. It is never dropped before its answer.
pub(super) type Attempt = Shared<Pin<Box<dyn Future<Output = Outcome> + Send>>>;

/// What an attempt came to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Held {
        token: FencingToken,
        sent: Instant,
        lease: Duration,
    },
    Busy {
        remaining: Option<Duration>,
    },
    /// Nothing is known but that asking again makes sense.
    Unanswered,
    Failed(StoreError),
}

/// Why a waiter does not get the lock.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Busy,
    Late,
    Failed(StoreError),
}

#[derive(Debug)]
pub(super) struct Waiter {
    key: LockKey,
    claim: Claim,
    runtime: Handle,
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
    /// Why the last attempt got no answer, if it got none.
    last_error: Option<StoreError>,
    /// Whether it waits no more; no attempt is made from then on.
    ended: bool,
    /// What the driver brings.
    answer: Option<Result<Grant, Refusal>>,
}

impl Waiter {
    pub(super) fn new(key: LockKey, claim: Claim, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            key,
            claim,
            runtime,
            state: Mutex::default(),
            wake: Notify::new(),
        })
    }

    pub(super) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many times the store was asked for this waiter.
    pub(super) fn asked(&self) -> u32 {
        self.state.lock().asked
    }

    pub(super) fn last_error(&self) -> Option<StoreError> {
        self.state.lock().last_error.clone()
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
        let waiter = Arc::clone(self);
        let asking = async move {
            let sent = Instant::now();
            waiter.read(sent, request.await)
        };
        let attempt: Attempt =
            (Box::pin(asking) as Pin<Box<dyn Future<Output = _> + Send>>).shared();
        state.attempt = Some(attempt.clone());
        Some(attempt)
    }

    /// The outcome of `attempt` was no success and has been dealt with: the next one may be made.
    pub(super) fn settle(&self, attempt: &Attempt) {
        let mut state = self.state.lock();
        if state
            .attempt
            .as_ref()
            .is_some_and(|present| present.ptr_eq(attempt))
        {
            state.attempt = None;
        }
    }

    /// Runs once for each attempt, whoever polls it.
    fn read(&self, sent: Instant, answer: Result<Acquired, StoreError>) -> Outcome {
        match answer {
            Ok(Acquired::Held { token, lease })
                if Instant::now() < lease::deadline(sent, lease) =>
            {
                Outcome::Held { token, sent, lease }
            }
            Ok(Acquired::Held { .. }) => {
                // The answer took longer than the lease. The store may hold the lock for us, and
                // only a fresh answer says for how long.
                self.state.lock().unanswered = true;
                Outcome::Unanswered
            }
            Ok(Acquired::Busy { remaining }) => {
                self.state.lock().last_error = None;
                Outcome::Busy { remaining }
            }
            // Only a hold that has ended meets its tombstone, and nobody waits for that answer.
            Ok(Acquired::Ended) => Outcome::Busy { remaining: None },
            Err(error) => {
                let mut state = self.state.lock();
                state.last_error = Some(error.clone());
                state.unanswered |= error.effect() == Effect::Unknown;
                if error.effect() == Effect::Refused {
                    return Outcome::Failed(error);
                }
                report::acquire_retried(&self.key, &error);
                Outcome::Unanswered
            }
        }
    }

    /// The lock is held for this waiter. Only for the one who has claimed it from its line.
    pub(super) fn grant(
        &self,
        queue: &Arc<Queue>,
        token: FencingToken,
        sent: Instant,
        lease: Duration,
    ) -> Grant {
        let Claim { hold, ttl } = self.claim;
        let (queue, key, runtime) = (Arc::clone(queue), self.key.clone(), self.runtime.clone());
        let unanswered = self.state.lock().unanswered;
        let entered = false;
        Grant {
            queue,
            key,
            hold,
            token,
            sent,
            lease,
            ttl,
            unanswered,
            runtime,
            entered,
        }
    }

    /// Ends whatever the store holds or may come to hold for this waiter, in the background.
    /// Only for the one who has claimed it from its line.
    pub(super) fn undo(self: &Arc<Self>, queue: &Arc<Queue>) {
        let (attempt, unanswered) = {
            let mut state = self.state.lock();
            state.ended = true;
            (state.attempt.clone(), state.unanswered)
        };
        if attempt.is_none() && !unanswered {
            return;
        }
        let (waiter, queue) = (Arc::clone(self), Arc::clone(queue));
        drop(Handover::new(&self.runtime, async move {
            let held = match attempt {
                Some(attempt) => matches!(attempt.await, Outcome::Held { .. }),
                None => false,
            };
            let tombstone = waiter.state.lock().unanswered;
            if held || tombstone {
                let Claim { hold, ttl } = waiter.claim;
                report::acquire_undone(&waiter.key, hold);
                let release = Release {
                    key: waiter.key.clone(),
                    hold,
                    tombstone,
                    deadline: Instant::now(),
                    ttl,
                };
                // What goes wrong is reported; there is nobody to tell.
                let _ = queue.release(release).await;
            }
        }));
    }

    /// Sends the waiter away. Only for the one who has claimed it from its line.
    pub(super) fn refuse(self: &Arc<Self>, queue: &Arc<Queue>, refusal: Refusal) {
        self.undo(queue);
        self.answer(Err(refusal));
    }

    /// Brings the answer. Only for the one who has claimed the waiter from its line.
    pub(super) fn answer(&self, answer: Result<Grant, Refusal>) {
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
mod tests {
    use super::*;
    use crate::{id::Owner, options::Wake, store::memory::MemoryStore};

    /// A waiter, and the queue it asks through.
    fn waiting() -> Result<(Arc<Queue>, Arc<Waiter>), crate::LockError> {
        let queue = Queue::new(Arc::new(MemoryStore::new()), Wake::default());
        let claim = Claim {
            hold: Owner::new().next_hold(),
            ttl: Duration::from_secs(30),
        };
        let key = LockKey::new("", "order:42")?;
        Ok((queue, Waiter::new(key, claim, Handle::current())))
    }

    /// The driver may turn to a waiter at the moment at which it leaves. A request made then would
    /// be answered to nobody, and its lock stand for a whole lease.
    #[tokio::test]
    async fn nothing_is_asked_for_a_waiter_that_has_left() -> Result<(), crate::LockError> {
        let (queue, waiter) = waiting()?;
        waiter.undo(&queue);
        assert!(waiter.attempt(&queue).is_none());
        Ok(())
    }

    #[tokio::test]
    async fn an_attempt_in_flight_outlives_its_waiter() -> Result<(), crate::LockError> {
        let (queue, waiter) = waiting()?;
        assert!(waiter.attempt(&queue).is_some());
        waiter.undo(&queue);
        assert!(waiter.attempt(&queue).is_some());
        Ok(())
    }
}
