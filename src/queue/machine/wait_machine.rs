//! The machine, and the inputs about waiters, replies and messages.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::holders::Holders;
use super::messages::{Action, Actions, Denied, HoldIds, Input, LastReply, Reply};
use super::waiters::{Outcome, Stage, Waiter, Waiters};
use crate::base::backoff::Backoff;
use crate::base::id::HoldId;
use crate::base::metrics::HandoffPath;
use crate::base::options::Mode;
use crate::base::options::QueueOptions;
use crate::store::HandoffMessage;

/// The time after the reported end of a lease at which the lock is free.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);

/// The longest pause between two requests, without the jitter.
const MAX_REQUEST_PAUSE: Duration = Duration::from_millis(50);

/// The waiters of one key in one process, first come, first served. See [`step`](Self::step).
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct WaitMachine {
    pub(super) queueing: QueueOptions,
    pub(super) waiters: Waiters,
    pub(super) holders: Holders,
    pub(super) in_flight: Option<RequestInFlight>,
    /// The number of times in a row that the lock was handed off inside this process.
    pub(super) handoffs: u32,
    /// Whether another process may wait for the lock that this process has.
    pub(super) is_contended: bool,
    pub(super) last_reply: LastReply,
    /// Whether messages can arrive.
    pub(super) listens: bool,
    /// Whether the first waiter must send a request as soon as none is in flight.
    pub(super) maybe_free: bool,
    /// The instant at which the first waiter sends a request if nothing happens before.
    pub(super) request_at: Option<Instant>,
    /// The instant at which the lease that the store reported expires.
    pub(super) free_at: Option<Instant>,
    /// The pauses of the first waiter between two requests, while nothing says when to send one.
    pub(super) backoff: Backoff,
    /// The waiters that have not claimed their grants, each with the instant at which it is passed over. They are in
    /// the order of these instants.
    pub(super) unclaimed: VecDeque<(Instant, HoldId)>,
}

/// The present step, with what it leaves to its caller.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) now: Instant,
    pub(super) actions: Actions,
}

impl Step {
    pub(super) fn at(now: Instant) -> Self {
        let actions = Actions::new();
        Self { now, actions }
    }
}

/// The one request in flight that may bring the lock to a waiter, or to the readers at the head.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct RequestInFlight {
    pub(super) holds: HoldIds,
    /// Whether it was sent only because it was due. If it brings the lock, a message should have arrived.
    pub(super) was_due: bool,
    /// The waiters that have left. What the reply brings them is released.
    pub(super) left: Vec<Waiter>,
    /// A message to the waiters, which arrived before the reply. The reply is older, and is processed first.
    pub(super) message: Option<Box<HandoffMessage>>,
    /// Whether another process has begun to wait since the request. A reply that brings the lock may be older, and not
    /// say so.
    pub(super) is_contended: bool,
}

impl WaitMachine {
    pub(crate) fn new(queueing: QueueOptions) -> Self {
        Self {
            queueing,
            waiters: Waiters::default(),
            holders: Holders::default(),
            in_flight: None,
            handoffs: 0,
            is_contended: false,
            last_reply: LastReply::None,
            listens: false,
            maybe_free: false,
            request_at: None,
            free_at: None,
            backoff: Backoff::slow(MAX_REQUEST_PAUSE),
            unclaimed: VecDeque::new(),
        }
    }

    /// The number of waiters.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns whether a caller waits until a holder in this process leaves. One that makes a single attempt does not
    /// wait. One that may share the lock with the holders waits only if the store has said so.
    pub(crate) fn is_wanted(&self, now: Instant) -> bool {
        let is_exclusive = self.holders.is_exclusive(now);
        self.waiters.iter().any(|waiter| {
            let excludes = is_exclusive || waiter.mode == Mode::Exclusive;
            !waiter.is_single_attempt() && (excludes || self.was_busy(waiter))
        })
    }

    /// Returns whether the last request for a waiter has met another holder.
    fn was_busy(&self, waiter: &Waiter) -> bool {
        let is_answered = waiter.was_requested && !self.is_in_flight(waiter.request.hold);
        let is_busy = is_answered && matches!(self.last_reply, LastReply::Busy);
        is_busy || matches!(waiter.stage, Stage::Queued(_))
    }

    /// Returns whether the request in flight is for this waiter.
    pub(super) fn is_in_flight(&self, hold: HoldId) -> bool {
        let request = self.in_flight.as_ref();
        request.is_some_and(|request| request.holds.contains(&hold))
    }

    /// Returns whether nothing is left to remember.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_active() && self.holders.is_empty()
    }

    /// Returns whether something is left to do, except to end the present hold.
    pub(crate) fn is_active(&self) -> bool {
        !self.waiters.is_empty() || !self.unclaimed.is_empty() || self.in_flight.is_some()
    }

    pub(crate) fn last_reply(&self) -> &LastReply {
        &self.last_reply
    }

    /// The instant at which [`Input::Due`] must follow.
    pub(crate) fn due(&self) -> Option<Instant> {
        let request_at = self.request_at.filter(|_| self.in_flight.is_none());
        let unclaimed = self.unclaimed.front().map(|(due, _)| *due);
        unclaimed.into_iter().chain(request_at).min()
    }

    /// Processes an input, and returns what must be done.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Actions {
        let mut step = Step::at(now);
        self.process(input, &mut step);
        self.send_or_schedule(&mut step);
        step.actions
    }

    fn process(&mut self, input: Input, step: &mut Step) {
        match input {
            Input::Join(spec) => self.join(Waiter::new(spec), step),
            Input::Leave(hold) => {
                self.claim(hold);
                if let Some(waiter) = self.remove(hold) {
                    self.end_wait(waiter, step);
                }
            }
            Input::Reply(reply) => self.process_reply(&reply, step),
            Input::Handoff {
                message,
                generation,
            } => self.process_handoff(message, generation, step),
            Input::Entered { waiter, hold } => {
                self.claim(waiter);
                self.holders.enter(hold);
            }
            Input::HandOff {
                hold,
                waiter,
                until,
            } => {
                if let Some(next) = self.remove(waiter) {
                    self.handoffs = self.handoffs.saturating_add(1);
                    self.holders.remove(hold);
                    self.add_holder(hold, until, &next, step.now);
                }
            }
            Input::Release(hold) => self.end_hold(hold),
            Input::Released(hold) => {
                self.holders.remove(hold);
                // A request that was sent behind the release finds what the release has done.
                self.maybe_free |= self.in_flight.is_none() || !self.listens;
            }
            Input::Lost(hold) => {
                self.holders.remove(hold);
                self.maybe_free = true;
            }
            Input::MaybeFree => self.maybe_free = true,
            Input::Contended => {
                self.is_contended = true;
                if let Some(request) = &mut self.in_flight {
                    request.is_contended = true;
                }
            }
            Input::Listening(listens) if listens != self.listens => {
                self.listens = listens;
                // A request that is due is not put off, or an inbox that opens and breaks in every heartbeat would keep
                // it back for ever.
                self.request_at = self.request_at.filter(|at| *at <= step.now);
            }
            Input::Listening(_) => {}
            Input::Due => self.process_due(step),
            Input::Close => self.close(step),
            #[cfg(test)]
            Input::Panic => panic!("as it is to"),
        }
    }

    /// Returns whether the values that are derived from other fields are consistent with them.
    #[cfg(test)]
    pub(super) fn adds_up(&self) -> bool {
        self.waiters.add_up() && self.unclaimed.iter().is_sorted_by_key(|(due, _)| *due)
    }

    // ---- callers that join and leave ----

    pub(super) fn join(&mut self, waiter: Waiter, step: &mut Step) {
        let is_single_attempt = waiter.is_single_attempt();
        if !self.waiters.add(waiter) {
            return;
        }
        self.backoff.reset();
        self.maybe_free = true;
        if is_single_attempt && self.in_flight.is_none() {
            self.send(false, step);
        }
    }

    /// Removes a waiter from the queue.
    pub(super) fn remove(&mut self, hold: HoldId) -> Option<Waiter> {
        let (waiter, was_first) = self.waiters.remove(hold)?;
        if was_first {
            // The next waiter has not sent a request yet.
            self.backoff.reset();
            self.maybe_free = true;
        }
        Some(waiter)
    }

    /// Releases whatever the store may have of a waiter that leaves without the lock. A request in flight is answered
    /// first.
    pub(super) fn end_wait(&mut self, waiter: Waiter, step: &mut Step) {
        match &mut self.in_flight {
            Some(request) if request.holds.contains(&waiter.request.hold) => {
                request.left.push(waiter);
            }
            _ if waiter.is_known() => step.actions.push(Action::Release(waiter.release(step.now))),
            _ => {}
        }
    }

    pub(super) fn deny(&mut self, hold: HoldId, denied: Denied, step: &mut Step) {
        if let Some(waiter) = self.remove(hold) {
            self.end_wait(waiter, step);
            step.actions.push(Action::Deny(hold, denied));
        }
    }

    // ---- replies and messages ----

    fn process_reply(&mut self, reply: &Reply, step: &mut Step) {
        let Some(mut request) = self.in_flight.take() else {
            return;
        };
        // Each waiter of the request learns its part, also one that has left.
        let mut outcomes = SmallVec::<[_; 1]>::new();
        for (at, hold) in request.holds.iter().enumerate() {
            let mut left = request.left.iter_mut();
            let left = left.find(|waiter| waiter.request.hold == *hold);
            let Some(waiter) = left.or_else(|| self.waiters.get_mut(*hold)) else {
                continue;
            };
            let mut outcome = waiter.learn(reply, at, request.message.as_deref(), step.now);
            if let Outcome::Held(grant) = &mut outcome {
                grant.is_contended |= request.is_contended;
                if request.was_due && grant.via == HandoffPath::Request {
                    grant.via = HandoffPath::Heartbeat;
                }
            }
            self.last_reply = match &outcome {
                Outcome::Failed(error) => LastReply::Failed(error.clone()),
                _ => LastReply::Busy,
            };
            outcomes.push((*hold, outcome));
        }
        let is_held = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Held(_));
        let is_message_missing = request.was_due && request.message.is_none();
        if is_message_missing && outcomes.iter().any(is_held) {
            step.actions.push(Action::CheckSubscription);
        }
        // What the store may have of those that have left is released.
        let known = request.left.iter().filter(|waiter| waiter.is_known());
        let releases = known.map(|waiter| Action::Release(waiter.release(step.now)));
        step.actions.extend(releases);
        // Waiters that have the lock are handled first, so that it is known who else may enter.
        outcomes.sort_by_key(|outcome| !is_held(outcome));
        for (hold, outcome) in outcomes {
            if self.waiters.get(hold).is_some() {
                self.apply_outcome(hold, outcome, step);
            }
        }
    }

    /// Applies the outcome of a request to a waiter in the queue.
    fn apply_outcome(&mut self, hold: HoldId, outcome: Outcome, step: &mut Step) {
        match outcome {
            Outcome::Held(grant) => return self.grant(grant, step),
            Outcome::Moved => return self.send_after_reply(step),
            Outcome::Failed(error) if error.is_denied() => {
                return self.deny(hold, Denied::Failed(error), step);
            }
            Outcome::Busy { remaining } => {
                self.free_at = remaining.and_then(|span| step.now.checked_add(span + EXPIRY_SLACK));
            }
            Outcome::Failed(_) => {}
        }
        let waiter = self.waiters.get(hold);
        if waiter.is_some_and(|waiter| waiter.is_single_attempt()) {
            self.deny(hold, self.last_reply.denied(), step);
        }
    }

    fn process_handoff(&mut self, message: HandoffMessage, generation: u64, step: &mut Step) {
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
            match waiter.map(|waiter| waiter.moved(&message, generation, step.now)) {
                Some(Outcome::Held(grant)) => self.grant(grant, step),
                Some(_) => self.send_after_reply(step),
                None => {}
            }
        }
    }
}
