//! The end of all waits at once: the `Locks` is closed, or a step has panicked.

use std::mem;

use tokio::time::Instant;

use super::{LocalQueue, Waiter};
use crate::queue::step::{Action, Refusal};

impl LocalQueue {
    /// Rejects all waiters, and takes back the grants that were not claimed.
    pub(super) fn close(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let unclaimed = self.unclaimed.drain(..);
        actions.extend(unclaimed.map(|(_, waiter)| Action::PassOver(waiter)));
        let waiters: Vec<_> = self.waiters.iter().map(|it| it.request.hold).collect();
        // Beginning with the last one, so that none becomes the first, and sends a request.
        for hold in waiters.into_iter().rev() {
            self.refuse(hold, Refusal::Closed, now, actions);
        }
    }

    /// Begins anew after a step has panicked, in whatever state that has left the queue. What the store may have of the
    /// waiters is released. The answer to the request in flight, if there is one, is still awaited.
    pub(in crate::queue) fn begin_anew(
        &mut self,
        is_in_flight: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let fresh = Self::new(self.queueing);
        let broken = mem::replace(self, fresh);
        self.flight = broken.flight.filter(|_| is_in_flight);
        for waiter in broken.waiters.iter().filter(|waiter| waiter.was_asked) {
            let waiter = Waiter {
                unanswered: true,
                ..waiter.clone()
            };
            match &mut self.flight {
                Some(flight) if flight.waiters.contains(&waiter.request.hold) => {
                    flight.left.push(waiter);
                }
                _ => actions.push(Action::Undo(waiter.release(now))),
            }
        }
    }
}
