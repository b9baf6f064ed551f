//! The task that sends the requests for the waiters of a local queue, one after the other, watches the time, and takes
//! back the grants that callers do not claim. So no request depends on a caller that is not polled.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Waker;

use tokio::runtime::{self, Handle};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::LocalQueues;
use super::callers::{Caller, lookup_holders};
use super::key_state::IfMissing;
use super::local_queue::{DriverWork, NextRequest};
use crate::base::key::LockKey;
use crate::base::timer::sleep_until;
use crate::queue::machine::Input;
use crate::queue::requests::PendingRequest;

struct Driver {
    queues: Arc<LocalQueues>,
    key: LockKey,
    signal: Arc<Notify>,
    runtime: runtime::Id,
    has_begun: bool,
    /// The request in flight.
    in_flight: Option<PendingRequest>,
}

impl LocalQueues {
    /// Starts the driver of a local queue, which this signal wakes.
    pub(super) fn start_driver(
        self: &Arc<Self>,
        key: &LockKey,
        signal: Arc<Notify>,
        runtime: &Handle,
    ) {
        self.in_flight.begin();
        let driver = Driver {
            queues: Arc::clone(self),
            key: key.clone(),
            signal,
            runtime: runtime.id(),
            has_begun: false,
            in_flight: None,
        };
        drop(runtime.spawn(driver.run()));
    }
}

impl Driver {
    /// Runs until the local queue has no more work for it.
    async fn run(mut self) {
        // A driver that is dropped before this was not accepted by its runtime.
        self.has_begun = true;
        let mut lookup = None;
        while let Some(work) = self.next_work() {
            let (queues, key) = (&self.queues, &self.key);
            match work.request {
                Some(NextRequest::New(spec, holds)) => {
                    self.in_flight = Some(queues.requests.acquire(key, spec, holds));
                }
                Some(NextRequest::Sent(request)) => self.in_flight = Some(request),
                // The machine learns that there is no reply, and makes another request for the same hold. The store
                // answers that one as it has answered the first.
                Some(NextRequest::GivenUp) => queues.step(key, Input::Reply(queues.no_reply(key))),
                None => {}
            }
            if work.needs_lookup {
                lookup = Some(lookup_holders(queues.store(), key));
            }
            let replied = self
                .in_flight
                .as_mut()
                .map(|request| poll_fn(|cx| queues.requests.poll_reply(key, request, cx)));
            select! {
                biased;
                () = self.signal.notified() => {}
                reply = await_if_some(replied) => {
                    self.in_flight = None;
                    queues.step(key, Input::Reply(reply));
                }
                blocking = await_if_some(lookup.as_mut()) => {
                    lookup = None;
                    queues.with_queue(key, IfMissing::Skip, None, |queue, _| {
                        queue.note_lookup(blocking, Instant::now());
                    });
                }
                () = await_if_some(work.due.map(sleep_until)) => {}
            }
        }
    }

    /// Does what is due. Returns `None` if the local queue has no more work for this driver.
    fn next_work(&self) -> Option<DriverWork> {
        let queues = &self.queues;
        // Outside the mutex, because it calls the store.
        let listens = queues.listen();
        let work = queues.with_queue(&self.key, IfMissing::Skip, None, |queue, deferred| {
            queue.is_driven_by(&self.signal).then(|| {
                queue.step(Input::Listening(listens), deferred);
                queue.next_work(queues.queueing.heartbeat, deferred)
            })
        });
        work.flatten()
    }

    /// Leaves the local queue. Returns the callers that can start another driver. Returns `None` if a request has no
    /// reply, and this driver must report that, because no caller can start another one.
    fn retire(&self, is_unanswered: bool) -> Option<Vec<Waker>> {
        let mut states = self.queues.states.lock();
        let queue = states.queue(&self.key);
        let driven = queue.filter(|queue| queue.is_driven_by(&self.signal));
        let Some(queue) = driven else {
            return (!is_unanswered).then(Vec::new);
        };
        if is_unanswered {
            // What must be undone then, is undone there: this runtime starts no task any more.
            if !queue.callers.any_on_other_runtime(self.runtime) {
                return None;
            }
            queue.next_request = Some(NextRequest::GivenUp);
        }
        queue.driver = None;
        // Callers on a runtime that accepts no new task could not start another driver either.
        let can_start = |caller: &Caller| self.has_begun || caller.runtime != Some(self.runtime);
        Some(queue.callers.wakers(can_start))
    }
}

/// Reports that the runtime of the driver has ended, or its work has. If it is the runtime, the request has no answer,
/// and one of the callers starts another driver.
impl Drop for Driver {
    fn drop(&mut self) {
        let is_unanswered = self.in_flight.take().is_some();
        let wakers = self.retire(is_unanswered).or_else(|| {
            let reply = self.queues.no_reply(&self.key);
            self.queues.step(&self.key, Input::Reply(reply));
            self.retire(false)
        });
        wakers.into_iter().flatten().for_each(Waker::wake);
        self.queues.in_flight.end();
    }
}

/// Waits for a future, or for ever.
async fn await_if_some<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
