//! The task that sends the requests for the waiters of a local queue, one after the other, watches the time, and takes
//! back the grants that callers do not claim. So no request depends on a caller that is not polled.

use std::future::pending;
use std::sync::Arc;
use std::task::Waker;

use tokio::runtime::{self, Handle};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callers::Caller;
use super::holder_lookup::{HolderLookup, look_up_holders};
use super::key_state::IfMissing;
use super::local_queue::{NextRequest, Turn};
use super::local_queues::LocalQueues;
use super::machine::Input;
use super::requests::PendingRequest;
use crate::base::key::LockKey;
use crate::base::timer::sleep_until;

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
        self.in_flight().begin();
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
        self.has_begun = true;
        let mut lookup: Option<HolderLookup> = None;
        while let Some(Turn {
            request,
            needs_lookup,
            due,
        }) = self.turn()
        {
            let Self {
                queues,
                key,
                signal,
                in_flight,
                ..
            } = &mut self;
            match request {
                Some(NextRequest::New(spec, holds)) => {
                    *in_flight = Some(queues.requests.acquire(key, spec, holds));
                }
                Some(NextRequest::Sent(request)) => *in_flight = Some(request),
                Some(NextRequest::GivenUp) => queues.input(key, Input::Reply(queues.no_reply(key))),
                None => {}
            }
            if needs_lookup {
                lookup = Some(look_up_holders(queues.store(), key));
            }
            let replied = in_flight
                .as_mut()
                .map(|request| queues.requests.await_reply(key, request));
            select! {
                biased;
                () = signal.notified() => {}
                reply = or_pending(replied) => {
                    *in_flight = None;
                    queues.input(key, Input::Reply(reply));
                }
                seen = or_pending(lookup.as_mut()) => {
                    lookup = None;
                    queues.change(key, IfMissing::Skip, None, |queue, _| {
                        queue.note_lookup(seen, Instant::now());
                    });
                }
                () = or_pending(due.map(sleep_until)) => {}
            }
        }
    }

    /// Does what is due. Returns `None` if the local queue has no more work for this driver.
    fn turn(&self) -> Option<Turn> {
        let queues = &self.queues;
        let listens = queues.listen();
        let turn = queues.change(&self.key, IfMissing::Skip, None, |queue, effects| {
            queue.is_driven_by(&self.signal).then(|| {
                queue.step(Input::Listening(listens), effects);
                queue.turn(queues.queueing.heartbeat, effects)
            })
        });
        turn.flatten()
    }

    /// Leaves the request in flight, which gets no reply, to the driver that a caller on another runtime starts. What
    /// must be undone then, is undone there: this runtime starts no task any more. Returns false if there is no caller.
    fn leave_to_next_driver(&self) -> bool {
        let mut states = self.queues.states.lock();
        let queue = states.queue(&self.key);
        let driven = queue.filter(|queue| queue.is_driven_by(&self.signal));
        let left = driven.filter(|queue| queue.callers.are_elsewhere(self.runtime));
        left.map(|queue| queue.next_request = Some(NextRequest::GivenUp))
            .is_some()
    }
}

/// Reports that the runtime of the driver has ended, or its work has. If it is the runtime, the request has no answer,
/// and one of the callers starts another driver.
impl Drop for Driver {
    fn drop(&mut self) {
        let queues = &self.queues;
        if self.in_flight.take().is_some() && !self.leave_to_next_driver() {
            let reply = queues.no_reply(&self.key);
            queues.input(&self.key, Input::Reply(reply));
        }
        let wakers = {
            let mut states = queues.states.lock();
            let queue = states.queue(&self.key);
            let driven = queue.filter(|queue| queue.is_driven_by(&self.signal));
            driven.map(|queue| {
                queue.driver = None;
                // Callers on a runtime that accepts no new task could not start another driver either.
                let can_start =
                    |caller: &Caller| self.has_begun || caller.runtime != Some(self.runtime);
                queue.callers.wakers(can_start)
            })
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
        queues.in_flight().end();
    }
}

/// Waits for a future, or for ever.
async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
