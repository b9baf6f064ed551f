//! The steps of the machine: when the first waiter sends a request, for whom, and what follows from the reply; who is
//! granted the lock, and continues a hold in memory; and the ends of holds and waits.

use std::mem;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::grant::{Grant, Holders, SoleHolder};
use super::inputs_and_actions::{Action, Denied, HoldIds, RequestReply};
use super::waiters::{WaitOutcome, Waiter};
use super::{AcquireInFlight, Step, WaitMachine};
use crate::base::id::HoldId;
use crate::base::metrics::HandoffPath;
use crate::base::options::{Mode, QueueOptions};
use crate::base::timer::after;
use crate::store::HandoffMessage;

/// The time after the reported end of a lease at which the lock is free.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);

/// The maximum number of readers that share one request.
const MAX_READERS_PER_REQUEST: usize = 16;

impl WaitMachine {
    /// Does what follows every input: sends a request, or sets the time of the next one.
    pub(super) fn send_or_schedule(&mut self, step: &mut Step) {
        // The single attempts go first. The waiter behind them sends the next request.
        self.deny_single_attempts(step);
        // While a request is in flight, the flag is kept for its reply. It is cleared even if the waiter may not
        // send, because the end of the hold that keeps it from sending sets it again.
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
        // The readers at the head share a request, because with one at a time each would wait for those before it.
        let count = self.count_for_one_request();
        let Some(first) = self.waiters.first() else {
            return;
        };
        let spec = first.spec;
        let waiters = self.waiters.iter().take(count);
        let holds: HoldIds = waiters.map(|waiter| waiter.request.hold).collect();
        for hold in &holds {
            // A single attempt has had its request with this one.
            if let Some(waiter) = self.waiters.get_mut(*hold) {
                waiter.was_requested = true;
            }
        }
        step.actions.push(Action::Send(spec, holds.clone()));
        // The times that were noted for the next request are outdated.
        self.maybe_free = false;
        (self.request_at, self.free_at) = (None, None);
        self.in_flight = Some(AcquireInFlight {
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
    fn count_for_one_request(&self) -> usize {
        let mut waiters = self.waiters.iter().take(MAX_READERS_PER_REQUEST);
        let Some(first) = waiters.next() else {
            return 0;
        };
        1 + waiters
            .take_while(|other| first.shares_request_with(other))
            .count()
    }

    /// Passes over the grants that were not claimed in time, and sends a request that is due.
    pub(super) fn process_due(&mut self, step: &mut Step) {
        // The grants of callers that are not polled: until now the lock counts as held here.
        while let Some(&(due, waiter)) = self.unclaimed.front()
            && due <= step.now
        {
            self.unclaimed.pop_front();
            step.actions.push(Action::PassOver(waiter));
        }
        // The heartbeat, the end of a pause, or the end of the lease that the store reported.
        if self.in_flight.is_none() && self.request_at.is_some_and(|at| at <= step.now) {
            // No message was due at the end of a lease.
            let is_over = self.free_at.is_some_and(|free_at| free_at <= step.now);
            self.send(self.listens && !is_over, step);
        }
    }

    /// Rejects the waiters that make only one attempt. They stay no longer than the request in flight.
    fn deny_single_attempts(&mut self, step: &mut Step) {
        // The request in flight may be theirs, and if it is not, it still tells them whether the lock is free
        // (invariant 6).
        if self.in_flight.is_some() || self.waiters.single_attempts().next().is_none() {
            return;
        }
        // Readers join those of their process who are inside, after they have sent a request.
        let together = if self.holders.is_shared(step.now) {
            self.count_for_one_request()
        } else {
            0
        };
        let first = self.waiters.iter().take(together);
        let joining = first.filter(|it| it.is_single_attempt() && !it.was_requested);
        let joining: HoldIds = joining.map(|waiter| waiter.request.hold).collect();
        self.maybe_free |= !joining.is_empty();
        let others = self.waiters.single_attempts();
        let others: HoldIds = others.filter(|hold| !joining.contains(hold)).collect();
        // The others stay no longer than the request in flight, and there is none.
        for hold in others {
            self.deny(hold, self.denial(), step);
        }
    }

    /// Returns whether the first waiter sends a request although none is due. It does not while a call graph of this
    /// process has the lock, which will hand it off in memory, or release it and let the waiter send its request.
    fn may_send(&self, now: Instant) -> bool {
        // Readers inside let others of their process in, and a writer takes its place in the store's queue before
        // others do. In strict order it does so whenever it joins, not when the lock is released.
        !self.holders.is_exclusive(now) || self.queueing.turns == 0
    }

    fn schedule(&mut self, now: Instant) {
        let Some(first) = self.waiters.first() else {
            return;
        };
        let heartbeat = self.queueing.heartbeat(first.request.ttl);
        let is_failing = matches!(self.last_denial, Some(Denied::Failed(_)));
        // A time that is set stays. Otherwise each input would put the request off.
        if let Some(at) = &mut self.request_at {
            // The next waiter may have a shorter heartbeat.
            // While the store fails, the time is the end of a pause, which no heartbeat shortens.
            if !is_failing {
                *at = (*at).min(after(now, heartbeat));
            }
            return;
        }
        // How long nothing is sent unless something happens: a growing pause while the store fails; a heartbeat while
        // messages arrive; without messages the short pauses of a waiter that polls; and a heartbeat behind a writer
        // of this process.
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
        // A lease that expires frees the lock without a message.
        self.request_at = Some(self.free_at.map_or(at, |free| free.min(at)));
    }

    // ---- replies and messages ----

    pub(super) fn process_reply(&mut self, reply: &RequestReply, step: &mut Step) {
        let Some(mut request) = self.in_flight.take() else {
            return;
        };
        // Each waiter of the request has its part in the reply. So has one that has left, or it would not be known what
        // must be released.
        let mut outcomes = SmallVec::<[_; 1]>::new();
        for (at, hold) in request.holds.iter().enumerate() {
            let mut left = request.left.iter_mut();
            let left = left.find(|waiter| waiter.request.hold == *hold);
            let Some(waiter) = left.or_else(|| self.waiters.get_mut(*hold)) else {
                continue;
            };
            let mut outcome = waiter.apply_reply(reply, at, request.message.as_deref(), step.now);
            if let WaitOutcome::Held(grant) = &mut outcome {
                // What arrived during the request is newer than the reply.
                grant.is_contended |= request.is_contended;
                // The metrics tell apart what came by a message and what only a heartbeat has found.
                if request.was_due && grant.via == HandoffPath::Request {
                    grant.via = HandoffPath::Heartbeat;
                }
            }
            self.last_denial = Some(match &outcome {
                WaitOutcome::Failed(error) => Denied::Failed(error.clone()),
                _ => Denied::Busy,
            });
            outcomes.push((*hold, outcome));
        }

        // What the store may have of those that have left is released.
        let known = request.left.iter().filter(|waiter| waiter.is_known());
        let releases = known.map(|waiter| Action::Release(waiter.release(step.now)));
        step.actions.extend(releases);

        // Those that still wait get their outcome. Waiters that have the lock come first, so that it is known who else
        // may enter.
        outcomes.sort_by_key(|(_, outcome)| !matches!(outcome, WaitOutcome::Held(_)));
        for (hold, outcome) in outcomes {
            if self.waiters.get(hold).is_some() {
                self.apply_outcome(hold, outcome, step);
            }
        }
    }

    /// Applies the outcome of a request to a waiter in the queue.
    fn apply_outcome(&mut self, hold: HoldId, outcome: WaitOutcome, step: &mut Step) {
        match outcome {
            WaitOutcome::Held(grant) => return self.grant(grant, step),
            // The lock is here, and for how long only another request can find out.
            WaitOutcome::Moved => return self.send_after_reply(step),
            // A repetition would be rejected as well.
            WaitOutcome::Failed(error) if error.is_denied() => {
                return self.deny(hold, Denied::Failed(error), step);
            }
            WaitOutcome::Busy { remaining } => {
                self.free_at = remaining.and_then(|span| step.now.checked_add(span + EXPIRY_SLACK));
            }
            WaitOutcome::Failed(_) => {}
        }
        // The lock was not free. That is the answer to a single attempt, and the others wait on.
        let waiter = self.waiters.get(hold);
        if waiter.is_some_and(|waiter| waiter.is_single_attempt()) {
            self.deny(hold, self.denial(), step);
        }
    }

    pub(super) fn process_handoff(
        &mut self,
        message: HandoffMessage,
        generation: u64,
        step: &mut Step,
    ) {
        // The reply to a request in flight is older, and is processed first.
        let is_addressed = |hold: &HoldId| message.holds.contains(hold);
        if let Some(request) = &mut self.in_flight
            && request.holds.iter().any(is_addressed)
        {
            request.message = Some(Box::new(message));
            return;
        }
        // A hold that has already entered, or no longer waits, has no use for the message.
        for hold in &message.holds {
            let waiter = self.waiters.get(*hold);
            match waiter.map(|waiter| waiter.outcome_of_move(&message, generation, step.now)) {
                Some(WaitOutcome::Held(grant)) => self.grant(grant, step),
                // From when the lease counts is unknown, so only another request can tell.
                Some(_) => self.send_after_reply(step),
                None => {}
            }
        }
    }
}

impl WaitMachine {
    /// Returns whether this hold has the lock in this process, as far as is known.
    pub(crate) fn is_held_by(&self, hold: HoldId) -> bool {
        self.holders.contains(hold)
    }

    /// Returns the first waiter, if it may continue a hold of this TTL in memory. The store must not know of the
    /// waiter, because it enters under the id of another hold.
    ///
    /// While no other process waits, the number of hand-offs has no bound. If the lock was not in the store for a
    /// heartbeat (`is_late`), it goes through the store. The reason is that the message of another process, or the lock
    /// itself, may have been lost.
    pub(crate) fn next_in_memory(&self, ttl: Duration, is_late: bool) -> Option<HoldId> {
        let first = self.waiters.first()?;
        let hold = first.request.hold;
        // It enters under the id of the hold before it. If the store had its own id too, in the queue or soon in the
        // lock, that would have to be undone.
        let is_known = first.is_known() || self.is_in_flight(hold);
        let fits = first.may_inherit && first.request.ttl == ttl && !is_known;
        let turns = self.queueing.turns;
        // Messages arrive, and none has said that another process waits.
        let has_no_bound = turns > 0 && self.listens && !self.is_contended;
        // Otherwise the processes take turns (P10).
        let may_stay = !is_late && (self.handoffs < turns || has_no_bound);
        (fits && may_stay).then_some(hold)
    }

    pub(super) fn grant(&mut self, grant: Grant, step: &mut Step) {
        let Some(waiter) = self.remove(grant.hold) else {
            return;
        };
        // It comes from the store, so the turns in memory are counted anew.
        (self.handoffs, self.is_contended) = (0, grant.is_contended);
        self.add_holder(grant.hold, grant.lease.deadline, &waiter, step.now);
        step.actions.push(Action::Grant(grant));
    }

    /// Notes that a waiter has been granted the lock, and must claim it.
    pub(super) fn add_holder(
        &mut self,
        hold: HoldId,
        until: Instant,
        waiter: &Waiter,
        now: Instant,
    ) {
        self.holders.add(hold, waiter.mode, Some(until));
        self.last_denial = Some(Denied::Busy);
        // These times were about the holder before.
        (self.request_at, self.free_at) = (None, None);
        // If the order is strict, the next waiter takes its place in the store's queue now. After a reader, another
        // reader may enter.
        self.maybe_free = self.queueing.turns == 0 || waiter.mode == Mode::Shared;
        let due = after(now, 2 * self.queueing.heartbeat(waiter.request.ttl));
        // Each grant has the heartbeat of its own TTL, so the one that was made last need not be the last that is
        // due.
        let at = self.unclaimed.partition_point(|(other, _)| *other <= due);
        self.unclaimed.insert(at, (due, waiter.request.hold));
    }

    /// Notes that a waiter has entered its grant, or has returned it.
    pub(super) fn claim(&mut self, waiter: HoldId) {
        // Most grants are claimed in the order in which they were made.
        let mut unclaimed = self.unclaimed.iter();
        if let Some(at) = unclaimed.position(|(_, other)| *other == waiter) {
            self.unclaimed.remove(at);
        }
    }

    /// Ends a hold. If it was exclusive, the first waiter sends its request right behind the release. If its request is in
    /// flight already, it enters the store's queue, to which the release moves the lock, or finds the lock free. So do
    /// those behind a reader.
    pub(super) fn end_hold(&mut self, hold: HoldId) {
        let was_exclusive = matches!(self.holders, Holders::Writer(writer, _) if writer == hold);
        self.holders.remove(hold);
        self.maybe_free |= was_exclusive && self.in_flight.is_none();
    }

    /// Rejects all waiters, and takes back the grants that were not claimed.
    pub(super) fn close(&mut self, step: &mut Step) {
        // Their callers may never be polled again.
        let unclaimed = self.unclaimed.drain(..);
        step.actions
            .extend(unclaimed.map(|(_, waiter)| Action::PassOver(waiter)));
        let waiters: Vec<_> = self.waiters.iter().map(|it| it.request.hold).collect();
        // Beginning with the last one, so that none becomes the first, and sends a request.
        for hold in waiters.into_iter().rev() {
            self.deny(hold, Denied::Closed, step);
        }
    }
}

/// A machine that begins in the middle.
impl WaitMachine {
    /// Creates the machine in which one caller has sent a request, and no other has joined.
    pub(crate) fn with_request(queueing: QueueOptions, waiter: Waiter) -> Self {
        let (mut machine, mut step) = (Self::new(queueing), Step::new(Instant::now()));
        machine.join(waiter, &mut step);
        machine.send_or_schedule(&mut step);
        machine
    }

    /// Creates the machine in which a hold has the lock, and no caller wants it.
    pub(crate) fn with_holder(queueing: QueueOptions, holder: SoleHolder) -> Self {
        let mut machine = Self {
            handoffs: holder.handoffs,
            is_contended: holder.is_contended,
            last_denial: Some(Denied::Busy),
            ..Self::new(queueing)
        };
        machine.holders.add(holder.hold, holder.mode, None);
        machine
    }

    /// The only hold that has the lock, if no caller wants the lock.
    pub(crate) fn sole_holder(&self) -> Option<SoleHolder> {
        let (hold, mode) = self.holders.sole().filter(|_| !self.is_active())?;
        Some(SoleHolder {
            hold,
            mode,
            handoffs: self.handoffs,
            is_contended: self.is_contended,
        })
    }
}
