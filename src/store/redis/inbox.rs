//! The inbox: one subscription, on a connection of its own, over which the server notifies this process that a lock has
//! moved to it.
//!
//! A message may be lost, or arrive late: it only saves a waiter the time until its next request. The inbox is opened
//! when a caller has to wait. After a disconnect, the subscription is repeated until it succeeds. The inbox is closed
//! when no caller has waited for a while. While it is broken, the waiters send requests with growing pauses.
//!
//! No wake-up is lost. The stage changes before the waiters are woken, and a waiter reads it before it pauses. So the
//! waiter reads the new stage, or its pause is cut short.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use self::subscriber::{Ground, InboxStage, Lost, Subscriber};
use super::connect::common::Generation;
use super::link::abort_on_drop::AbortOnDrop;
use super::link::source::{Source, Timeouts};
use crate::base::events::Throttle;
use crate::base::id::InboxId;
use crate::base::sync::Mutex;
use crate::store::records::Listener;

mod subscriber;

pub(super) struct Inbox {
    ground: Arc<Ground>,
    subscription: Mutex<Option<Subscription>>,
}

struct Subscription {
    stage: Arc<Mutex<InboxStage>>,
    task: AbortOnDrop,
}

impl Subscription {
    fn stage(&self) -> InboxStage {
        if self.task.0.is_finished() {
            // The task may have ended before it was first polled.
            InboxStage::Ended
        } else {
            *self.stage.lock()
        }
    }
}

impl Inbox {
    pub(super) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        lost: Lost,
        generation: Generation,
    ) -> Self {
        let ground = Ground {
            source,
            timeouts,
            lost,
            generation,
            check: Notify::default(),
            failures: Throttle::default(),
        };
        Self {
            ground: Arc::new(ground),
            subscription: Mutex::default(),
        }
    }

    /// Opens the inbox, unless it is open. Returns false while it is broken. A runtime that ends takes the inbox with
    /// it. Then the next waiter opens it again.
    pub(super) fn open(&self, id: InboxId, listener: Weak<dyn Listener>) -> bool {
        let mut subscription = self.subscription.lock();
        match subscription.as_ref().map(Subscription::stage) {
            Some(InboxStage::Opening | InboxStage::Open) => return true,
            Some(InboxStage::Broken) => return false,
            Some(InboxStage::Ended) | None => {}
        }
        let stage = Arc::new(Mutex::new(InboxStage::Opening));
        let subscriber = Subscriber {
            id,
            listener,
            ground: Arc::clone(&self.ground),
            stage: Arc::clone(&stage),
        };
        let task = AbortOnDrop::spawn(subscriber.run());
        *subscription = Some(Subscription { stage, task });
        true
    }

    /// Closes the inbox. The next waiter would open it again.
    pub(super) fn close(&self) {
        drop(self.subscription.lock().take());
    }

    /// Checks the subscription. If its connection is dead, the subscription is repeated over another one.
    pub(super) fn check_subscription(&self) {
        self.ground.check.notify_one();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}
