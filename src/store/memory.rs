//! Locks in the memory of this process, on the tokio clock, with the same replies as from Redis.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

pub(crate) use self::lock_view::{AskingProcess, LockView};
use self::state::AddressedMessage;
pub(crate) use self::state::State;
pub(crate) use self::stored_queue::WaitMode;
use crate::base::error::StoreFuture;
use crate::base::id::InboxId;
use crate::base::sync::Mutex;
use crate::store::redis::codec::{ForcedReleaseListener, MessageListener};

mod lock_view; // one lock at one moment, with the operations of the scripts
mod state; // the state, its published waits, its clock and its messages
mod stored_queue; // what waits for a lock, and the readers inside

/// The in-memory store. Clones share its state.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    inboxes: Mutex<HashMap<InboxId, Weak<dyn MessageListener>>>,
    holders: Mutex<Vec<Weak<dyn ForcedReleaseListener>>>,
    /// Never changes: there is no connection to lose.
    generation: watch::Sender<u64>,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Executes `step` when the future is first polled.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut State, Instant) -> T + Send + 'static,
    ) -> StoreFuture<T> {
        let store = self.clone();
        Box::pin(async move {
            // Nothing here ever waits, so a loop around a lock would starve other tasks.
            consume_budget().await;
            // In one poll, so a future that is dropped has executed all of it or nothing (P7).
            Ok(store.execute(step))
        })
    }

    /// Executes `step` as one atomic operation, and then delivers the messages about the locks that it has moved.
    pub(crate) fn execute<T>(&self, step: impl FnOnce(&mut State, Instant) -> T) -> T {
        let (answer, messages) = {
            let mut state = self.shared.state.lock();
            // Read under the mutex, so that no operation has an earlier time than the one before it.
            let now = state.clock.now();
            state.sweep(now);
            let answer = step(&mut state, now);
            (answer, mem::take(&mut state.messages))
        };
        // After the mutex was released: a receiver may send a request at once.
        for message in messages {
            self.shared.deliver(message);
        }
        answer
    }

    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.shared.generation.subscribe()
    }

    /// Opens the inbox, unless it is open.
    pub(crate) fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) {
        let inboxes = &self.shared.inboxes;
        let known = inboxes.lock().insert(inbox, Weak::clone(&listener));
        if known.is_none()
            && let Some(listener) = listener.upgrade()
        {
            // The listener may have missed locks that moved before.
            listener.missed();
        }
    }

    /// Adds `holders` to the receivers of the messages to all processes.
    pub(crate) fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        let mut known = self.shared.holders.lock();
        // A `Locks` that was dropped leaves its receiver here.
        known.retain(|holders| holders.strong_count() > 0);
        known.push(holders);
    }
}

/// Faults that can happen to a real server.
#[cfg(any(test, feature = "test-util"))]
impl MemoryStore {
    /// Loses all data, for example by FLUSHALL or a restart without persistence.
    pub(crate) fn forget(&self) {
        self.shared.state.lock().forget();
    }

    pub(crate) fn step_clock_forward(&self, by: std::time::Duration) {
        self.shared.state.lock().clock.step_forward(by);
    }

    pub(crate) fn step_clock_back(&self, by: std::time::Duration) {
        self.shared.state.lock().clock.step_back(by);
    }
}

impl Shared {
    fn deliver(&self, message: AddressedMessage) {
        // The listeners are called without a mutex.
        let listener = |inbox| self.inboxes.lock().get(&inbox).and_then(Weak::upgrade);
        match message {
            AddressedMessage::Handoff(inbox, message) => {
                if let Some(listener) = listener(inbox) {
                    listener.handoff(message);
                }
            }
            AddressedMessage::Contended(inbox, key) => {
                listener(inbox).iter().for_each(|it| it.contended(&key));
            }
            // The holds may belong to any process.
            AddressedMessage::Forced(message) => {
                let known = self.holders.lock().clone();
                for holders in known.iter().filter_map(Weak::upgrade) {
                    holders.forced(message.clone());
                }
            }
        }
    }
}
