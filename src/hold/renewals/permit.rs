//! The permits for requests in flight. Each server has its own, so that one that does not respond delays no other.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The maximum number of requests of one runtime in flight at one server. Over a distance of 10 ms this allows for
/// 25,600 requests per second, and up to 32 times as many holds. Together they keep a server busy for about 10 ms,
/// which is how long another request may wait behind them.
///
/// Without a bound, a process might have more renewals due together than it can send. They would be late before they
/// are sent, would be sent once more, and so would keep the rest from being sent.
const MAX_IN_FLIGHT: usize = 256;

/// The number of free permits at which the next requests are sent. Sent one by one, each would cost a turn of the
/// schedule, and a packet.
const REFILL: usize = 64;

/// The permits of the requests at one server.
#[derive(Debug)]
pub(super) struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_IN_FLIGHT)))
    }
}

impl Permits {
    /// A permit, if one is free. When enough are free again, it notifies the signal.
    pub(super) fn take(&self, signal: &Arc<Notify>) -> Option<Permit> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok();
        let signal = Arc::clone(signal);
        permit.is_some().then_some(Permit { permit, signal })
    }

    pub(super) fn are_all_free(&self) -> bool {
        self.0.available_permits() == MAX_IN_FLIGHT
    }
}

/// The permit of a request in flight.
#[derive(Debug)]
pub(super) struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    /// Wakes the schedule's task.
    signal: Arc<Notify>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let permits = self.permit.take().map(|it| Arc::clone(it.semaphore()));
        if permits.is_some_and(|permits| permits.available_permits() >= REFILL) {
            self.signal.notify_one();
        }
    }
}
