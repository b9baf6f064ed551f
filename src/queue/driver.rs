//! The task that asks for the first in line.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{select, sync::Notify, time::sleep};

use super::{
    Queue,
    waiter::{Outcome, Refusal, Waiter},
};
use crate::{key::LockKey, options::Wake, releaser::growing_pauses};

/// A lock that expires at the reported instant is free a moment later.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Driver {
    queue: Arc<Queue>,
    key: LockKey,
    kick: Arc<Notify>,
    turns: Arc<AtomicU64>,
    /// Whether its line has ended.
    done: bool,
}

impl Driver {
    pub(super) fn new(
        queue: &Arc<Queue>,
        key: &LockKey,
        kick: Arc<Notify>,
        turns: Arc<AtomicU64>,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            key: key.clone(),
            kick,
            turns,
            done: false,
        }
    }

    /// Runs until the line is empty. `busy` is what is known of the lock at the start.
    pub(super) async fn run(mut self, mut busy: Option<Duration>) {
        let mut served: Option<Arc<Waiter>> = None;
        let mut pauses = self.queue.wake.pauses();
        let mut ask_at_once = busy.is_none();
        while let Some(first) = self.queue.first(&self.key, &self.kick) {
            self.turns.fetch_add(1, Ordering::Relaxed);
            if served
                .as_ref()
                .is_none_or(|last| !Arc::ptr_eq(last, &first))
            {
                pauses = self.queue.wake.pauses();
                served = Some(Arc::clone(&first));
            }
            if !ask_at_once {
                self.pause(pauses.next(), busy).await;
                ask_at_once = true;
                continue;
            }
            let Some(attempt) = first.attempt(&self.queue) else {
                continue;
            };
            match attempt.clone().await {
                Outcome::Held { token, sent, lease } => {
                    if self.queue.claim(&first) {
                        first.answer(Ok(first.grant(&self.queue, token, sent, lease)));
                    }
                    busy = Some(lease);
                }
                Outcome::Failed(error) => {
                    if self.queue.claim(&first) {
                        first.refuse(&self.queue, Refusal::Failed(error));
                    }
                    continue;
                }
                Outcome::Busy { remaining } => {
                    first.settle(&attempt);
                    busy = remaining;
                }
                Outcome::Unanswered => {
                    first.settle(&attempt);
                    busy = None;
                }
            }
            if self.queue.wake.is_exhausted(first.asked()) && self.queue.claim(&first) {
                first.refuse(&self.queue, Refusal::Late);
            }
            ask_at_once = false;
        }
        self.done = true;
    }

    /// Waits until the lock may be free.
    async fn pause(&self, pause: Option<Duration>, busy: Option<Duration>) {
        let pause = pause.unwrap_or_default();
        let pause = busy.map_or(pause, |remaining| pause.min(remaining + EXPIRY_SLACK));
        select! {
            () = sleep(pause) => {}
            () = self.kick.notified() => {}
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.queue.abandon(&self.key, &self.kick);
        }
    }
}

impl Wake {
    /// The pauses between the questions of one waiter.
    fn pauses(self) -> Box<dyn Iterator<Item = Duration> + Send> {
        match self {
            // 10 ms to 100 ms, jitter and all.
            Self::Backoff => Box::new(growing_pauses(Duration::from_millis(50), 1.5)),
            Self::Poll { interval, .. } => Box::new(std::iter::repeat(interval)),
        }
    }

    /// Longer than a driver stays in one turn, unless its runtime stands still.
    pub(super) fn standstill(self) -> Duration {
        const SPARE: Duration = Duration::from_secs(2);
        match self {
            Self::Backoff => SPARE,
            Self::Poll { interval, .. } => interval.saturating_add(SPARE),
        }
    }

    pub(super) fn is_exhausted(self, asked: u32) -> bool {
        matches!(self, Self::Poll { attempts: Some(attempts), .. } if asked >= attempts)
    }
}
