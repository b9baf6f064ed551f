//! The server itself: the in-memory store, and whether it executes the requests that it receives.

use std::mem;

use tokio::sync::Notify;

use crate::base::sync::{Mutex, wait_until};
use crate::store::MemoryStore;

/// The condition of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition {
    #[default]
    Running,
    /// The server accepts requests, and executes nothing.
    Paused,
    /// The server rejects connections.
    Stopped,
}

/// A request that has arrived. Calling it executes the request and sends the response.
pub(super) type Arrived = Box<dyn FnOnce() + Send>;

/// The server, without its connections.
#[derive(Default)]
pub(super) struct Host {
    pub(super) store: MemoryStore,
    state: Mutex<HostState>,
    /// Notified when a condition for which a process waits may have become true.
    changed: Notify,
}

#[derive(Default)]
struct HostState {
    condition: Condition,
    /// The requests that a paused server has received, in this order.
    received: Vec<Arrived>,
}

impl Host {
    pub(super) fn condition(&self) -> Condition {
        self.state.lock().condition
    }

    /// Executes a request now, or when the server resumes. A server that stops loses the requests that it has not
    /// executed.
    pub(super) fn receive(&self, request: Arrived) {
        let mut state = self.state.lock();
        match state.condition {
            Condition::Running => {
                // Without the mutex: the response may wake code that sends the next request.
                drop(state);
                request();
            }
            // As in the buffer of a socket: it is executed late, even if its caller has given up.
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
        // Dropped after the mutex was released.
        drop(lost);
    }

    pub(super) fn start(&self) {
        self.transition(Condition::Stopped, Condition::Running);
    }

    pub(super) fn pause(&self) {
        self.transition(Condition::Running, Condition::Paused);
    }

    /// Executes the received requests, and then the requests that arrive meanwhile.
    pub(super) fn resume(&self) {
        // The server counts as paused until nothing is left, so that requests which arrive meanwhile are executed
        // behind the earlier ones.
        while let Some(received) = self.take_received() {
            received.into_iter().for_each(|request| request());
        }
    }

    /// Takes the requests that a paused server has received. Returns `None` if there are none. Then the server is
    /// running again.
    fn take_received(&self) -> Option<Vec<Arrived>> {
        let mut state = self.state.lock();
        // Checked under the mutex: no request is received between the last one and the end of the pause.
        if !state.received.is_empty() {
            return Some(mem::take(&mut state.received));
        }
        if state.condition == Condition::Paused {
            state.condition = Condition::Running;
        }
        None
    }

    fn transition(&self, from: Condition, to: Condition) {
        let mut state = self.state.lock();
        // From any other condition the call changes nothing: a server that has stopped cannot be paused.
        if state.condition == from {
            state.condition = to;
        }
    }

    /// Waits until `check` returns a value. What changes that calls [`notify_changed`](Self::notify_changed).
    pub(super) async fn wait_until<T>(&self, check: impl FnMut() -> Option<T>) -> T {
        wait_until(&self.changed, check).await
    }

    pub(super) fn notify_changed(&self) {
        self.changed.notify_waiters();
    }
}
