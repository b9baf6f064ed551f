//! The machine of a local queue: who waits for one key in this process, who holds it, and which request is in flight.
//! Every change is one [`step`](LocalQueue::step), which only returns what must be done.
//!
//! It has no clock, no store and no tasks of its own, so that every sequence of steps can be tried. The tests beside it
//! follow the diagram of [`Stage`](super::waiter::Stage), and the model checker drives this very machine.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::step::{Action, Answer, Heard, Input, Refusal};
use super::waiter::{Outcome, RequestInFlight, Stage, Waiter};
use crate::base::backoff::Backoff;
use crate::base::id::HoldId;
use crate::base::options::{Mode, QueueOptions};
use crate::store::HandoffMessage;

/// The time after the reported end of a lease at which the lock is free.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);

/// The longest pause between two requests, without the jitter.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

mod asking;
mod closing;
mod holders;
mod holding;
#[cfg(test)]
#[path = "../../tests/model/mod.rs"]
mod model;
#[cfg(test)]
#[path = "../../tests/properties/local_queue.rs"]
mod properties;
mod waiters;

use self::holders::Holders;
use self::waiters::Waiters;

/// The waiters of one key in one process, first come, first served. See [`step`](Self::step).
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct LocalQueue {
    queueing: QueueOptions,
    waiters: Waiters,
    holders: Holders,
    flight: Option<RequestInFlight>,
    /// The number of times in a row that the lock was handed off inside this process.
    handoffs: u32,
    /// Whether another process may wait for the lock that this process has.
    is_contended: bool,
    /// The last reply of the store.
    heard: Heard,
    /// Whether messages can arrive.
    listens: bool,
    /// Whether the first waiter must send a request as soon as none is in flight.
    maybe_free: bool,
    /// The instant at which the first waiter sends a request if nothing happens before.
    ask_at: Option<Instant>,
    /// The instant at which the lease that the store reported expires.
    free_at: Option<Instant>,
    /// The pauses of the first waiter between two requests, while nothing says when to send one.
    backoff: Backoff,
    /// The waiters that have not claimed their grants, each with the instant at which it is passed over. They are in
    /// the order of these instants.
    unclaimed: VecDeque<(Instant, HoldId)>,
}

impl LocalQueue {
    pub(super) fn new(queueing: QueueOptions) -> Self {
        Self {
            queueing,
            waiters: Waiters::default(),
            holders: Holders::default(),
            flight: None,
            handoffs: 0,
            is_contended: false,
            heard: Heard::Nothing,
            listens: false,
            maybe_free: false,
            ask_at: None,
            free_at: None,
            backoff: Backoff::slow(LONGEST_PAUSE),
            unclaimed: VecDeque::new(),
        }
    }

    /// The number of waiters.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns whether a caller waits until a holder in this process leaves. One that makes a single attempt does not
    /// wait. One that may share the lock with the holders waits only if the store has said so.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        let is_exclusive = self.holders.is_exclusive(now);
        self.waiters.iter().any(|waiter| {
            let keeps_out = is_exclusive || waiter.mode == Mode::Exclusive;
            !waiter.asks_once && (keeps_out || self.is_told_busy(waiter))
        })
    }

    /// Returns whether the last request for a waiter has met another holder.
    fn is_told_busy(&self, waiter: &Waiter) -> bool {
        let hold = waiter.request.hold;
        let mut flight = self.flight.iter();
        let is_asking = flight.any(|flight| flight.waiters.contains(&hold));
        let is_answered = waiter.was_asked && !is_asking && matches!(self.heard, Heard::Busy);
        matches!(waiter.stage, Stage::Queued(_)) || is_answered
    }

    /// Returns whether nothing is left to remember.
    pub(super) fn is_over(&self) -> bool {
        !self.is_active() && self.holders.is_empty()
    }

    /// Returns whether something is left to do, except to end the present hold.
    pub(super) fn is_active(&self) -> bool {
        !self.waiters.is_empty() || !self.unclaimed.is_empty() || self.flight.is_some()
    }

    /// The last reply of the store.
    pub(super) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// The instant at which [`Input::Due`] must follow.
    pub(super) fn due(&self) -> Option<Instant> {
        let ask_at = self.ask_at.filter(|_| self.flight.is_none());
        let unclaimed = self.unclaimed.front().map(|(due, _)| *due);
        unclaimed.into_iter().chain(ask_at).min()
    }

    pub(super) fn step(&mut self, input: Input, now: Instant, actions: &mut Vec<Action>) {
        match input {
            Input::Join(wish) => self.join(Waiter::new(wish), actions),
            Input::Leave(hold) => {
                self.claim(hold);
                if let Some(waiter) = self.remove(hold) {
                    self.depart(waiter, now, actions);
                }
            }
            Input::Answered(answer) => self.answered(answer, now, actions),
            Input::Handoff { message, epoch } => self.handoff(message, epoch, now, actions),
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
                    self.add_holder(hold, until, &next, now);
                }
            }
            Input::Release(hold) => self.end(hold),
            Input::Released(hold) => {
                self.holders.remove(hold);
                // A request that was sent behind the release finds what the release has done.
                self.maybe_free |= self.flight.is_none() || !self.listens;
            }
            Input::Lost(hold) => {
                self.holders.remove(hold);
                self.maybe_free = true;
            }
            Input::MaybeFree => self.maybe_free = true,
            Input::Contended => {
                self.is_contended = true;
                let flight = self.flight.iter_mut();
                flight.for_each(|flight| flight.is_contended = true);
            }
            Input::Listening(listens) if listens != self.listens => {
                self.listens = listens;
                // A request that is due is not put off, or an inbox that opens and breaks in every heartbeat would keep
                // it back for ever.
                self.ask_at = self.ask_at.filter(|at| *at <= now);
            }
            Input::Listening(_) => {}
            Input::Due => self.time_is_up(now, actions),
            Input::Close => self.close(now, actions),
            #[cfg(test)]
            Input::Panic => panic!("as it is to"),
        }
        self.go_on(now, actions);
    }

    /// Returns whether the values that are derived from other fields are consistent with them.
    #[cfg(test)]
    pub(super) fn adds_up(&self) -> bool {
        self.waiters.add_up() && self.unclaimed.iter().is_sorted_by_key(|(due, _)| *due)
    }

    // ---- callers that join and leave ----

    fn join(&mut self, waiter: Waiter, actions: &mut Vec<Action>) {
        let asks_once = waiter.asks_once;
        if !self.waiters.add(waiter) {
            return;
        }
        self.backoff.reset();
        self.maybe_free = true;
        if asks_once && self.flight.is_none() {
            self.ask(false, actions);
        }
    }

    /// Removes a waiter from the queue.
    fn remove(&mut self, hold: HoldId) -> Option<Waiter> {
        let (waiter, was_first) = self.waiters.remove(hold)?;
        if was_first {
            // The next waiter has not sent a request yet.
            self.backoff.reset();
            self.maybe_free = true;
        }
        Some(waiter)
    }

    /// Removes a waiter that leaves without the lock. The requests for it are undone after they are answered.
    fn depart(&mut self, waiter: Waiter, now: Instant, actions: &mut Vec<Action>) {
        match &mut self.flight {
            Some(flight) if flight.waiters.contains(&waiter.request.hold) => {
                flight.left.push(waiter);
            }
            _ => self.forget(&waiter, now, actions),
        }
    }

    /// Ends whatever the store may have of a waiter that has left.
    fn forget(&mut self, waiter: &Waiter, now: Instant, actions: &mut Vec<Action>) {
        if waiter.is_known() {
            self.undo(waiter, now, actions);
        }
    }

    fn undo(&mut self, waiter: &Waiter, now: Instant, actions: &mut Vec<Action>) {
        actions.push(Action::Undo(waiter.release(now)));
    }

    fn refuse(&mut self, hold: HoldId, refusal: Refusal, now: Instant, actions: &mut Vec<Action>) {
        if let Some(waiter) = self.remove(hold) {
            self.depart(waiter, now, actions);
            actions.push(Action::Refuse(hold, refusal));
        }
    }

    // ---- answers and messages ----

    fn answered(&mut self, answer: Answer, now: Instant, actions: &mut Vec<Action>) {
        let Some(mut flight) = self.flight.take() else {
            return;
        };
        let mut outcomes = Vec::new();
        for (at, hold) in flight.waiters.iter().enumerate() {
            let mut left = flight.left.iter_mut();
            let left = left.find(|waiter| waiter.request.hold == *hold);
            let Some(waiter) = left.or_else(|| self.waiters.get_mut(*hold)) else {
                continue;
            };
            let mut outcome = waiter.learn(answer.to(at), flight.message.as_deref(), now);
            if let Outcome::Held(grant) = &mut outcome {
                grant.is_contended |= flight.is_contended;
                grant.via = flight.via(grant.via);
            }
            self.hear(&outcome);
            outcomes.push((*hold, outcome));
        }
        let is_held = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Held(_));
        let should_have_been_told = flight.in_time && flight.message.is_none();
        if should_have_been_told && outcomes.iter().any(is_held) {
            actions.push(Action::CheckSubscription);
        }
        // Waiters that have the lock are handled first, so that it is known who else may enter.
        outcomes.sort_by_key(|outcome| !is_held(outcome));
        for (hold, outcome) in outcomes {
            let mut left = flight.left.iter();
            let Some(left) = left.find(|waiter| waiter.request.hold == hold) else {
                self.settle(hold, outcome, now, actions);
                continue;
            };
            match outcome {
                Outcome::Held(_) => self.undo(left, now, actions),
                _ => self.forget(left, now, actions),
            }
        }
    }

    fn hear(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Held(_) | Outcome::Moved | Outcome::Busy { .. } => self.heard = Heard::Busy,
            Outcome::Unknown(error) | Outcome::Refused(error) => {
                self.heard = Heard::Failure(error.clone());
            }
        }
    }

    /// Processes the answer for a waiter in the queue.
    fn settle(&mut self, hold: HoldId, outcome: Outcome, now: Instant, actions: &mut Vec<Action>) {
        match outcome {
            Outcome::Held(grant) => return self.grant(grant, now, actions),
            Outcome::Moved => return self.ask_anew(actions),
            Outcome::Refused(error) => {
                return self.refuse(hold, Refusal::Failed(error), now, actions);
            }
            Outcome::Busy { remaining } => {
                self.free_at = remaining.and_then(|span| now.checked_add(span + EXPIRY_SLACK));
            }
            Outcome::Unknown(_) => {}
        }
        if self.waiters.get(hold).is_some_and(|it| it.asks_once) {
            self.refuse(hold, self.heard.refusal(), now, actions);
        }
    }

    fn handoff(
        &mut self,
        message: HandoffMessage,
        epoch: u64,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let is_told = |hold: &HoldId| message.holds.contains(hold);
        if let Some(flight) = &mut self.flight
            && flight.waiters.iter().any(is_told)
        {
            flight.message = Some(Box::new(message));
            return;
        }
        // A hold that has already entered, or no longer waits, has no use for the message.
        for hold in &message.holds {
            let told = self.waiters.get(*hold);
            match told.map(|waiter| waiter.moved(&message, epoch, now)) {
                Some(Outcome::Held(grant)) => self.grant(grant, now, actions),
                Some(_) => self.ask_anew(actions),
                None => {}
            }
        }
    }
}
