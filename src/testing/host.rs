//! The server itself: the store in memory, and whether it executes what it receives.

use std::mem;

use tokio::sync::Notify;

use crate::{
    base::{mutex::Mutex, notify::until},
    store::MemoryStore,
};

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Running,
    /// It accepts what arrives, and executes nothing.
    Paused,
    /// It refuses connections.
    Stopped,
}

/// A request that has arrived, and that sends its answer back.
pub(super) type Arrived = Box<dyn FnOnce() + Send>;

/// The server, without its connections.
pub(super) struct Host {
    pub(super) store: MemoryStore,
    state: Mutex<State>,
    /// Told when a process may have waited for what is now.
    changed: Notify,
}

struct State {
    condition: Condition,
    /// What a paused server has received, in this order.
    received: Vec<Arrived>,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            state: Mutex::new(State {
                condition: Condition::Running,
                received: Vec::new(),
            }),
            changed: Notify::new(),
        }
    }

    pub(super) fn condition(&self) -> Condition {
        self.state.lock().condition
    }

    /// Executes a request now, or when the server goes on. One that stops loses what it has not executed.
    pub(super) fn receive(&self, request: Arrived) {
        let mut state = self.state.lock();
        match state.condition {
            Condition::Running => {
                drop(state);
                request();
            }
            Condition::Paused => state.received.push(request),
            Condition::Stopped => {}
        }
    }

    pub(super) fn stop(&self) {
        let lost = {
            let mut state = self.state.lock();
            state.condition = Condition::Stopped;
            mem::take(&mut state.received)
        };
        // The mutex has been let go of.
        drop(lost);
    }

    pub(super) fn start(&self) {
        self.turn(Condition::Stopped, Condition::Running);
    }

    pub(super) fn pause(&self) {
        self.turn(Condition::Running, Condition::Paused);
    }

    /// What arrives meanwhile is executed after what has arrived before.
    pub(super) fn resume(&self) {
        while let Some(received) = self.take_received() {
            received.into_iter().for_each(|request| request());
        }
    }

    /// What a paused server has received. `None` if there is nothing: then it runs.
    fn take_received(&self) -> Option<Vec<Arrived>> {
        let mut state = self.state.lock();
        if !state.received.is_empty() {
            return Some(mem::take(&mut state.received));
        }
        if state.condition == Condition::Paused {
            state.condition = Condition::Running;
        }
        None
    }

    fn turn(&self, from: Condition, to: Condition) {
        let mut state = self.state.lock();
        if state.condition == from {
            state.condition = to;
        }
    }

    /// Waits until this is so. Whoever changes it calls [`changed`](Self::changed).
    pub(super) async fn until<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        until(&self.changed, look).await
    }

    pub(super) fn changed(&self) {
        self.changed.notify_waiters();
    }
}
