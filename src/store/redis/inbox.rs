//! The inbox: one subscription, on a connection of its own, over which the server tells this process
//! that a lock has moved to it.
//!
//! A message may be lost, or come late: it only spares a waiter the time until it asks again. The inbox
//! is opened when a caller has to wait, is made anew after a disconnect for as long as that takes, and is
//! closed when no caller has waited for a while. While it is broken the waiters ask with a growing delay.
//!
//! No wake-up is lost: the stage changes before the waiters are woken, and a waiter reads it before it
//! pauses. So it reads the new stage, or its pause is cut short.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};

use self::{
    stage::Stage,
    subscriber::{Check, Lost, Subscriber},
};
use super::link::source::{Source, Timeouts};
use crate::{
    base::{id::InboxId, mutex::Mutex, throttle::Throttle},
    store::records::messages::Listener,
};

mod pace;
mod stage;
mod subscriber;
#[cfg(test)]
mod tests;

/// A task that has not taken a request to check for so long stands still with its runtime.
const DEAF: Duration = Duration::from_secs(1);

pub(super) struct Inbox {
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    lost: Lost,
    check: Arc<Check>,
    failures: Arc<Throttle>,
    subscription: Mutex<Option<Subscription>>,
}

struct Subscription {
    stage: Arc<Mutex<Stage>>,
    task: AbortHandle,
}

impl Subscription {
    fn stage(&self) -> Stage {
        if self.task.is_finished() {
            // It may have ended before it was polled.
            Stage::Ended
        } else {
            *self.stage.lock()
        }
    }
}

impl Inbox {
    pub(super) fn new(source: Arc<dyn Source>, timeouts: Timeouts, lost: Lost) -> Self {
        Self {
            source,
            timeouts,
            lost,
            check: Arc::default(),
            failures: Arc::default(),
            subscription: Mutex::default(),
        }
    }

    /// Opens the inbox, unless it is open. A runtime that ends takes its connections with it; then
    /// the next waiter opens the inbox again. Returns false while it is broken.
    pub(super) fn open(&self, id: InboxId, listener: Weak<dyn Listener>) -> bool {
        let mut subscription = self.subscription.lock();
        match subscription.as_ref().map(Subscription::stage) {
            Some(Stage::Opening | Stage::Open) => return true,
            Some(Stage::Broken) => return false,
            Some(Stage::Ended) | None => {}
        }
        let stage = Arc::new(Mutex::new(Stage::Opening));
        let subscriber = Subscriber {
            id,
            listener,
            source: Arc::clone(&self.source),
            timeouts: self.timeouts,
            lost: Arc::clone(&self.lost),
            check: Arc::clone(&self.check),
            stage: Arc::clone(&stage),
            failures: Arc::clone(&self.failures),
        };
        let task = tokio::spawn(subscriber.run()).abort_handle();
        *subscription = Some(Subscription { stage, task });
        true
    }

    /// Closes the inbox, and the connections to sentinels. The next waiter would open it again.
    pub(super) fn close(&self) {
        self.source.close();
        if let Some(subscription) = self.subscription.lock().take() {
            subscription.task.abort();
        }
    }

    /// The subscription is checked, and made anew if its connection is dead.
    pub(super) fn check_subscription(&self) {
        let since = *self.check.since.lock().get_or_insert_with(Instant::now);
        if since.elapsed() > DEAF
            && let Some(subscription) = self.subscription.lock().take()
        {
            // The next waiter opens another one.
            subscription.task.abort();
            *self.check.since.lock() = None;
        }
        self.check.asked.notify_one();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}
