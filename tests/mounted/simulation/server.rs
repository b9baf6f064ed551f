//! The server, which is the in-memory store with its faults.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::base::sync::Mutex;
use crate::store::{MemoryStore, Verb};

pub(super) struct Server {
    store: MemoryStore,
    condition: Mutex<Condition>,
}

#[derive(Debug)]
struct Condition {
    /// Whether it is down, and refuses connections.
    down: bool,
    /// The instant until which a slow script runs on it.
    blocked: Instant,
    /// The instant until which no faults happen.
    calm: Instant,
}

impl Server {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let condition = Condition {
            down: false,
            blocked: now,
            calm: now,
        };
        Self {
            store: MemoryStore::new(),
            condition: Mutex::new(condition),
        }
    }

    /// Waits until it can execute a request.
    pub(super) async fn until_free(&self) {
        loop {
            let blocked = self.condition.lock().blocked;
            if blocked <= Instant::now() {
                break;
            }
            sleep_until(blocked).await;
        }
    }

    pub(super) fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Executes a request of an operator as soon as it can.
    pub(super) async fn ask<V: Verb>(&self, verb: V) -> V::Reply {
        self.until_free().await;
        self.store.apply(verb)
    }

    pub(super) fn is_down(&self) -> bool {
        self.condition.lock().down
    }

    pub(super) fn set_down(&self, down: bool) {
        self.condition.lock().down = down;
    }

    pub(super) fn block(&self, span: Duration) {
        self.condition.lock().blocked = Instant::now() + span;
    }

    pub(super) fn forget(&self) {
        self.store.forget();
    }

    pub(super) fn set_clock_ahead(&self, step: Duration) {
        self.store.step_clock_forward(step);
    }

    pub(super) fn set_clock_back(&self, step: Duration) {
        self.store.step_clock_back(step);
    }

    /// Lets no faults happen for this time. Returns false if there already is one.
    pub(super) fn calm_for(&self, span: Duration) -> bool {
        let mut condition = self.condition.lock();
        let now = Instant::now();
        condition.calm = condition.calm.max(now + span);
        !condition.down && condition.blocked <= now
    }

    pub(super) fn is_calm(&self) -> bool {
        Instant::now() < self.condition.lock().calm
    }
}
