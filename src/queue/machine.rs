//! The machine of a local queue: who waits for one key in this process, who holds it, and which request is in flight.
//! Every change is one [`step`](WaitMachine::step), which only returns what must be done.
//!
//! It has no clock, no store and no tasks of its own, so that every sequence of steps can be tried. The tests beside it
//! follow the diagram of [`WaiterStage`](waiters::WaiterStage), and the model checker drives this very machine.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use self::grant::Holders;
use self::inputs_and_actions::Actions;
use self::waiters::{WaiterStage, Waiters};
use crate::base::id::HoldId;
use crate::base::options::{Mode, QueueOptions};
use crate::base::timer::Backoff;
use crate::store::HandoffMessage;

mod grant; // a lock that this process has: granted, handed off, and ended
mod inputs_and_actions; // what a step is given, and what it returns
mod steps; // what it does: sends, processes replies, grants, hands off, ends
mod waiters; // the waiters, and the outcome of a reply for each

#[cfg(test)]
#[path = "../../tests/mounted/model/mod.rs"]
mod model;
#[cfg(test)]
#[path = "../../tests/mounted/properties/wait_machine.rs"]
mod properties;

pub(crate) use self::grant::{Grant, HoldEnd, SoleHolder, StoredDepth};
pub(crate) use self::inputs_and_actions::{
    AcquireSpec, Action, Denied, HoldIds, Input, RequestReply, unanswered,
};
pub(crate) use self::waiters::{WaitOutcome, Waiter};

/// The longest pause between two requests, without the jitter.
const MAX_REQUEST_PAUSE: Duration = Duration::from_millis(50);

/// The waiters of one key in one process, first come, first served. See [`step`](Self::step).
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct WaitMachine {
    queueing: QueueOptions,
    waiters: Waiters,
    holders: Holders,
    in_flight: Option<AcquireInFlight>,
    /// The number of times in a row that the lock was handed off inside this process.
    handoffs: u32,
    /// Whether another process may wait for the lock that this process has.
    is_contended: bool,
    /// Why a waiter does not have the lock, by the last reply; `None` before the first one. It is busy or a failure.
    last_denial: Option<Denied>,
    /// Whether messages can arrive.
    listens: bool,
    /// Whether the first waiter must send a request as soon as none is in flight.
    maybe_free: bool,
    /// The instant at which the first waiter sends a request if nothing happens before.
    request_at: Option<Instant>,
    /// The instant at which the lease that the store reported expires.
    free_at: Option<Instant>,
    /// The pauses of the first waiter between two requests, while nothing says when to send one.
    backoff: Backoff,
    /// The waiters that have not claimed their grants, each with the instant at which it is passed over. They are in
    /// the order of these instants.
    unclaimed: VecDeque<(Instant, HoldId)>,
}

/// The present step, with what it leaves to its caller.
#[derive(Debug)]
struct Step {
    now: Instant,
    actions: Actions,
}

impl Step {
    fn new(now: Instant) -> Self {
        let actions = Actions::new();
        Self { now, actions }
    }
}

/// The one request in flight that may bring the lock to a waiter, or to the readers at the head.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
struct AcquireInFlight {
    holds: HoldIds,
    /// Whether it was sent only because it was due. If it brings the lock, a message should have arrived.
    was_due: bool,
    /// The waiters that have left. What the reply brings them is released.
    left: Vec<Waiter>,
    /// A message to the waiters, which arrived before the reply. The reply is older, and is processed first.
    message: Option<Box<HandoffMessage>>,
    /// Whether another process has begun to wait since the request. A reply that brings the lock may be older, and not
    /// say so.
    is_contended: bool,
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
            last_denial: None,
            listens: false,
            maybe_free: false,
            request_at: None,
            free_at: None,
            backoff: Backoff::slow(MAX_REQUEST_PAUSE),
            unclaimed: VecDeque::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns whether a caller waits until a holder in this process leaves. One that makes a single attempt does not
    /// wait. One that may share the lock with the holders waits only if the store has said so.
    pub(crate) fn is_contended_here(&self, now: Instant) -> bool {
        // A writer waits for every holder, and every waiter for a writer. A reader beside readers waits only if its
        // own request has met a writer in the queue, or its limit.
        let is_exclusive = self.holders.is_exclusive(now);
        self.waiters.iter().any(|waiter| {
            let excludes = is_exclusive || waiter.mode == Mode::Exclusive;
            !waiter.is_single_attempt() && (excludes || self.was_busy(waiter))
        })
    }

    /// Returns whether the last request for a waiter has met another holder.
    fn was_busy(&self, waiter: &Waiter) -> bool {
        let is_answered = waiter.was_requested && !self.is_in_flight(waiter.request.hold);
        let is_busy = is_answered && matches!(self.last_denial, Some(Denied::Busy));
        is_busy || matches!(waiter.stage, WaiterStage::Queued(_))
    }

    fn is_in_flight(&self, hold: HoldId) -> bool {
        let request = self.in_flight.as_ref();
        request.is_some_and(|request| request.holds.contains(&hold))
    }

    pub(crate) fn is_finished(&self) -> bool {
        !self.is_active() && self.holders.is_empty()
    }

    /// Returns whether something is left to do, except to end the present hold.
    pub(crate) fn is_active(&self) -> bool {
        !self.waiters.is_empty() || !self.unclaimed.is_empty() || self.in_flight.is_some()
    }

    pub(crate) fn last_denial(&self) -> Option<Denied> {
        self.last_denial.clone()
    }

    /// The reason why a waiter that makes only one attempt does not get its lock.
    fn denial(&self) -> Denied {
        self.last_denial().unwrap_or_else(Denied::unanswered)
    }

    /// The instant at which [`Input::Due`] must follow.
    pub(crate) fn due(&self) -> Option<Instant> {
        // A request in flight comes first: its reply decides when the next one is sent.
        let request_at = self.request_at.filter(|_| self.in_flight.is_none());
        let unclaimed = self.unclaimed.front().map(|(due, _)| *due);
        unclaimed.into_iter().chain(request_at).min()
    }

    /// Processes an input, and returns what must be done.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Actions {
        // Most inputs only note what they change. Whether a request follows is decided after each of them, by one rule,
        // so that no input can forget to send the request that it has made possible.
        let mut step = Step::new(now);
        self.process(input, &mut step);
        self.send_or_schedule(&mut step);
        step.actions
    }

    fn process(&mut self, input: Input, step: &mut Step) {
        match input {
            Input::Join(spec) => self.join(Waiter::new(spec), step),
            Input::Leave(hold) => {
                // A caller that returns a grant is no waiter any more. Then only its claim is noted.
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
                // From here on the renewals show how long the hold has the lock, and no longer its grant.
                self.claim(waiter);
                self.holders.enter(hold);
            }
            Input::HandOff {
                hold,
                waiter,
                until,
            } => {
                // The hold keeps its id. It counts again as one that is not entered, so that it is passed over if its
                // caller is not polled.
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
                // The reply on its way may be older than this message. If it brings the lock, it would undo what is
                // noted here.
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
        }
    }

    /// Returns whether the values that are derived from other fields are consistent with them.
    #[cfg(test)]
    fn is_consistent(&self) -> bool {
        self.waiters.is_consistent() && self.unclaimed.iter().is_sorted_by_key(|(due, _)| *due)
    }

    // ---- callers that join and leave ----

    fn join(&mut self, waiter: Waiter, step: &mut Step) {
        let is_single_attempt = waiter.is_single_attempt();
        if !self.waiters.add(waiter) {
            return;
        }
        self.backoff.reset();
        self.maybe_free = true;
        // After this input, single attempts are rejected unless a request is in flight. So this one needs its request
        // now.
        if is_single_attempt && self.in_flight.is_none() {
            self.send(false, step);
        }
    }

    fn remove(&mut self, hold: HoldId) -> Option<Waiter> {
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
    fn end_wait(&mut self, waiter: Waiter, step: &mut Step) {
        match &mut self.in_flight {
            // Only the reply says whether there is something to release.
            Some(request) if request.holds.contains(&waiter.request.hold) => {
                request.left.push(waiter);
            }
            // The store may have its place in the queue, or the lock.
            _ if waiter.is_known() => step.actions.push(Action::Release(waiter.release(step.now))),
            _ => {}
        }
    }

    fn deny(&mut self, hold: HoldId, denied: Denied, step: &mut Step) {
        if let Some(waiter) = self.remove(hold) {
            self.end_wait(waiter, step);
            step.actions.push(Action::Deny(hold, denied));
        }
    }
}
