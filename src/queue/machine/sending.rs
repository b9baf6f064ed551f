//! The requests of the first waiter: when it sends one, and for whom.

use std::mem;

use tokio::time::Instant;

use super::messages::{Action, HoldIds};
use super::wait_machine::{RequestInFlight, Step, WaitMachine};
use crate::base::timer::after;

/// The maximum number of readers that share one request.
const MAX_READERS_PER_REQUEST: usize = 16;

impl WaitMachine {
    /// Does what follows every input: sends a request, or sets the time of the next one.
    pub(super) fn send_or_schedule(&mut self, step: &mut Step) {
        self.deny_single_attempts(step);
        if self.in_flight.is_none() && mem::take(&mut self.maybe_free) && self.may_send(step.now) {
            self.send(false, step);
        }
        if self.waiters.is_empty() {
            (self.maybe_free, self.request_at) = (false, None);
        } else if self.in_flight.is_none() {
            self.schedule(step.now);
        }
    }

    /// Sends a request for the first waiter, or for the readers at the head.
    pub(super) fn send(&mut self, was_due: bool, step: &mut Step) {
        let count = self.first_together();
        let Some(first) = self.waiters.first() else {
            return;
        };
        let spec = first.spec;
        let waiters = self.waiters.iter().take(count);
        let holds: HoldIds = waiters.map(|waiter| waiter.request.hold).collect();
        for hold in &holds {
            if let Some(waiter) = self.waiters.get_mut(*hold) {
                waiter.was_requested = true;
            }
        }
        step.actions.push(Action::Send(spec, holds.clone()));
        // The times that were noted for the next request are outdated.
        self.maybe_free = false;
        (self.request_at, self.free_at) = (None, None);
        self.in_flight = Some(RequestInFlight {
            holds,
            was_due,
            left: Vec::new(),
            message: None,
            is_contended: false,
        });
    }

    /// Sends a request immediately, or after the reply to the one that is in flight.
    pub(super) fn send_after_reply(&mut self, step: &mut Step) {
        if self.in_flight.is_none() {
            self.send(false, step);
        } else {
            self.maybe_free = true;
        }
    }

    /// The number of waiters that one request is for: the first one, or all readers at the head.
    fn first_together(&self) -> usize {
        let mut waiters = self.waiters.iter().take(MAX_READERS_PER_REQUEST);
        let Some(first) = waiters.next() else {
            return 0;
        };
        1 + waiters.take_while(|other| first.enters_with(other)).count()
    }

    /// Passes over the grants that were not claimed in time, and sends a request that is due.
    pub(super) fn process_due(&mut self, step: &mut Step) {
        while let Some(&(due, waiter)) = self.unclaimed.front()
            && due <= step.now
        {
            self.unclaimed.pop_front();
            step.actions.push(Action::PassOver(waiter));
        }
        if self.in_flight.is_none() && self.request_at.is_some_and(|at| at <= step.now) {
            // No message was due at the end of a lease.
            let is_over = self.free_at.is_some_and(|free_at| free_at <= step.now);
            self.send(self.listens && !is_over, step);
        }
    }

    /// Rejects the waiters that make only one attempt. They stay no longer than the request in flight.
    fn deny_single_attempts(&mut self, step: &mut Step) {
        if self.in_flight.is_some() || self.waiters.single_attempts().next().is_none() {
            return;
        }
        // Readers join those of their process who are inside, after they have sent a request.
        let together = if self.holders.is_shared(step.now) {
            self.first_together()
        } else {
            0
        };
        let first = self.waiters.iter().take(together);
        let joining = first.filter(|it| it.is_single_attempt() && !it.was_requested);
        let joining: HoldIds = joining.map(|waiter| waiter.request.hold).collect();
        self.maybe_free |= !joining.is_empty();
        let others = self.waiters.single_attempts();
        let others: HoldIds = others.filter(|hold| !joining.contains(hold)).collect();
        for hold in others {
            self.deny(hold, self.last_reply.denied(), step);
        }
    }

    /// Returns whether the first waiter sends a request although none is due. It does not while a call graph of this
    /// process has the lock, which will hand it off in memory, or release it and let the waiter send its request.
    fn may_send(&self, now: Instant) -> bool {
        // Readers inside let others of their process in, and a writer takes its place in the store's queue before
        // others do. In strict order it does so whenever it joins, not when the lock is released.
        !self.holders.is_exclusive(now) || self.queueing.turns == 0
    }

    /// Sets the time at which the first waiter sends a request.
    fn schedule(&mut self, now: Instant) {
        let Some(first) = self.waiters.first() else {
            return;
        };
        let heartbeat = self.queueing.heartbeat(first.request.ttl);
        let is_failing = self.last_reply.is_failure();
        if let Some(at) = &mut self.request_at {
            // The next waiter may have a shorter heartbeat.
            if !is_failing {
                *at = (*at).min(after(now, heartbeat));
            }
            return;
        }
        let pause = if is_failing {
            self.backoff.next_pause()
        } else if self.listens {
            // The pauses grow from the time at which messages stop.
            self.backoff.reset();
            heartbeat
        } else if self.may_send(now) {
            // Without a request in each heartbeat, the place in the store's queue is lost.
            self.backoff.next_pause().min(heartbeat)
        } else {
            heartbeat
        };
        let at = after(now, pause);
        self.request_at = Some(self.free_at.map_or(at, |free| free.min(at)));
    }
}
