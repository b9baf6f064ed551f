//! The task that asks for the first in line.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{select, time::Instant};

use super::{Queue, attempt::Outcome, line::Pulse, waiter::Waiter};
use crate::base::{
    backoff::growing_pauses,
    key::LockKey,
    options::{Queueing, Wake},
    timer::sleep,
};

/// A lock that expires at the reported instant is free a moment later.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Driver {
    queue: Arc<Queue>,
    key: LockKey,
    pulse: Arc<Pulse>,
    /// Whether its line has ended.
    done: bool,
}

/// What is next for the first in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// To wait.
    Wait,
    /// To ask, unless a release in this process is to hand it the lock.
    Kicked,
    /// To ask: the time has come.
    TimeUp,
}

impl Driver {
    pub(super) fn new(queue: &Arc<Queue>, key: &LockKey, pulse: Arc<Pulse>) -> Self {
        Self {
            queue: Arc::clone(queue),
            key: key.clone(),
            pulse,
            done: false,
        }
    }

    /// Runs until the line is empty. `busy` is what is known of the lock at the start.
    pub(super) async fn run(mut self, mut busy: Option<Duration>) {
        let mut served: Option<Arc<Waiter>> = None;
        let mut pauses = self.queue.queueing.wake.pauses();
        let mut next = busy.map_or(Next::Kicked, |_| Next::Wait);
        while let Some((first, asks_at_once)) = self.queue.first(&self.key, &self.pulse) {
            self.pulse.turn();
            let told = self.queue.listen();
            if !served
                .as_ref()
                .is_some_and(|last| Arc::ptr_eq(last, &first))
            {
                pauses = self.queue.queueing.wake.pauses();
                served = Some(Arc::clone(&first));
            }
            let Queueing { wake, .. } = self.queue.queueing;
            let ask = next == Next::TimeUp || next == Next::Kicked && asks_at_once;
            if !ask {
                let heartbeat = self.queue.queueing.heartbeat(first.claim().ttl);
                let pause = match (first.heard().is_failure(), wake) {
                    (false, Wake::Notify) if told => {
                        // They grow from when it is told no more.
                        pauses = wake.pauses();
                        heartbeat
                    }
                    (false, Wake::Notify | Wake::Backoff) if !asks_at_once => heartbeat,
                    // Its place in the store's queue is kept no longer without a question.
                    (false, Wake::Notify | Wake::Backoff) => {
                        pauses.next().unwrap_or(heartbeat).min(heartbeat)
                    }
                    _ => pauses.next().unwrap_or(heartbeat),
                };
                next = self.pause(pause, busy).await;
                continue;
            }
            let Some(attempt) = first.attempt(&self.queue) else {
                tokio::task::yield_now().await;
                continue;
            };
            let outcome = attempt.clone().await;
            (busy, next) = match outcome {
                Outcome::Held(_) if next == Next::TimeUp && wake == Wake::Notify => {
                    // Also while the inbox is known to be broken: the runtime that is to open it
                    // again may stand still.
                    self.queue.store.check_subscription();
                    (None, Next::Wait)
                }
                Outcome::Busy { remaining } if !first.asks_once() => (remaining, Next::Wait),
                Outcome::Unanswered if !first.asks_once() => (None, Next::Wait),
                Outcome::Held(_) => (None, Next::Wait),
                // It has left.
                _ => (busy, Next::Kicked),
            };
            first.conclude(&self.queue, &attempt, outcome);
        }
        self.done = true;
    }

    /// Waits until the lock may be free.
    async fn pause(&self, pause: Duration, busy: Option<Duration>) -> Next {
        let pause = busy.map_or(pause, |remaining| pause.min(remaining + EXPIRY_SLACK));
        let mut pause = pin!(sleep(pause));
        loop {
            select! {
                biased;
                () = pause.as_mut() => return Next::TimeUp,
                () = self.pulse.kick.notified() => return Next::Kicked,
                () = self.pulse.hurry.notified() => {}
            }
            let polls = matches!(self.queue.queueing.wake, Wake::Poll { .. });
            let first = self.queue.first(&self.key, &self.pulse);
            if let Some((first, _)) = first.filter(|_| !polls) {
                let heartbeat = self.queue.queueing.heartbeat(first.claim().ttl);
                let due = pause.deadline().min(Instant::now() + heartbeat);
                pause.as_mut().reset(due);
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.queue.abandon(&self.key, &self.pulse);
        }
    }
}

impl Queueing {
    /// Longer than a driver stays in one turn, unless its runtime stands still.
    pub(super) fn standstill(self) -> Duration {
        const SPARE: Duration = Duration::from_secs(2);
        let pause = match self.wake {
            Wake::Notify | Wake::Backoff => self.heartbeat,
            Wake::Poll { interval, .. } => interval,
        };
        pause.saturating_add(SPARE)
    }
}

impl Wake {
    /// The pauses between the questions of one waiter that is told nothing.
    fn pauses(self) -> Box<dyn Iterator<Item = Duration> + Send> {
        match self {
            // 10 ms to 100 ms, jitter and all.
            Self::Notify | Self::Backoff => {
                Box::new(growing_pauses(Duration::from_millis(50), 1.5))
            }
            Self::Poll { interval, .. } => Box::new(std::iter::repeat(interval)),
        }
    }

    pub(super) fn is_exhausted(self, asked: u32) -> bool {
        matches!(self, Self::Poll { attempts: Some(attempts), .. } if asked >= attempts)
    }
}
