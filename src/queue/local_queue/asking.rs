//! The requests of the first waiter, and its pauses between them.

use std::mem;

use tokio::time::Instant;

use super::{LocalQueue, RequestInFlight, Waiter};
use crate::base::id::HoldId;
use crate::base::timer::after;
use crate::queue::step::Action;

/// The maximum number of readers that share one request.
const LONGEST_RUN: usize = 16;

impl LocalQueue {
    /// Does what follows every input: sends a request, or sets a pause.
    pub(super) fn go_on(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.refuse_hasty(now, actions);
        if self.flight.is_none() && mem::take(&mut self.maybe_free) && self.asks_at_once(now) {
            self.ask(false, actions);
        }
        if self.waiters.is_empty() {
            (self.maybe_free, self.ask_at) = (false, None);
        } else if self.flight.is_none() {
            self.rest(now);
        }
    }

    /// Sends a request for the first waiter, or for the readers at the head.
    pub(super) fn ask(&mut self, in_time: bool, actions: &mut Vec<Action>) {
        let count = self.run_length();
        let Some(first) = self.waiters.first() else {
            return;
        };
        let holds = self.waiters.iter().take(count);
        let holds: Vec<_> = holds.map(|waiter| waiter.request.hold).collect();
        actions.push(Action::Ask(first.wish.ask(|| holds.clone())));
        for hold in &holds {
            let asking = self.waiters.get_mut(*hold);
            asking
                .into_iter()
                .for_each(|waiter| waiter.was_asked = true);
        }
        self.fly(holds, in_time);
    }

    /// Sends a request immediately, or after the request that is in flight.
    pub(super) fn ask_anew(&mut self, actions: &mut Vec<Action>) {
        if self.flight.is_none() {
            self.ask(false, actions);
        } else {
            self.maybe_free = true;
        }
    }

    /// The number of waiters that one request is for: the first one, or all readers at the head.
    fn run_length(&self) -> usize {
        let Some(first) = self.waiters.first() else {
            return 0;
        };
        let others = self.waiters.iter().skip(1).take(LONGEST_RUN - 1);
        1 + others.take_while(|other| first.enters_with(other)).count()
    }

    /// Puts a request for these waiters in flight. The times that were noted for the next request are outdated.
    fn fly(&mut self, waiters: Vec<HoldId>, in_time: bool) {
        self.maybe_free = false;
        (self.ask_at, self.free_at) = (None, None);
        self.flight = Some(RequestInFlight {
            waiters,
            in_time,
            left: Vec::new(),
            message: None,
            is_contended: false,
        });
    }

    pub(super) fn time_is_up(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(&(due, waiter)) = self.unclaimed.front()
            && due <= now
        {
            self.unclaimed.pop_front();
            actions.push(Action::PassOver(waiter));
        }
        if self.flight.is_none() && self.ask_at.is_some_and(|at| at <= now) {
            // No message was due at the end of a lease.
            let is_over = self.free_at.is_some_and(|free_at| free_at <= now);
            self.ask(self.listens && !is_over, actions);
        }
    }

    /// Rejects the waiters that make only one attempt. They stay no longer than the request in flight.
    fn refuse_hasty(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.waiters.hasty().next().is_none() || self.flight.is_some() {
            return;
        }
        // Readers join those of their process who are inside, after they have sent a request.
        let joins = if self.holders.is_shared(now) {
            self.run_length()
        } else {
            0
        };
        let is_new = |waiter: &&Waiter| waiter.asks_once && !waiter.was_asked;
        let joining = self.waiters.iter().take(joins).filter(is_new);
        let joining: Vec<_> = joining.map(|waiter| waiter.request.hold).collect();
        self.maybe_free |= !joining.is_empty();
        let hasty = self.waiters.hasty();
        let hasty: Vec<_> = hasty.filter(|hold| !joining.contains(hold)).collect();
        for hold in hasty {
            self.refuse(hold, self.heard.refusal(), now, actions);
        }
    }

    /// Returns whether the first waiter sends a request although none is due. It does not while a call graph of this
    /// process has the lock, which will hand it off in memory, or release it and let the waiter send its request.
    fn asks_at_once(&self, now: Instant) -> bool {
        // Readers inside let others of their process in, and a writer takes its place in the store's queue before
        // others do. In strict order it does so whenever it joins, not when the lock is released.
        !self.holders.is_exclusive(now) || self.queueing.turns == 0
    }

    /// Sets the time at which the first waiter sends a request.
    fn rest(&mut self, now: Instant) {
        let Some(first) = self.waiters.first() else {
            return;
        };
        let heartbeat = self.queueing.heartbeat(first.request.ttl);
        let is_failing = self.heard.is_failure();
        if let Some(at) = &mut self.ask_at {
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
        } else if self.asks_at_once(now) {
            // Without a request in each heartbeat, the place in the store's queue is lost.
            self.backoff.next_pause().min(heartbeat)
        } else {
            heartbeat
        };
        let at = after(now, pause);
        self.ask_at = Some(self.free_at.map_or(at, |free| free.min(at)));
    }
}
