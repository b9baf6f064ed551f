//! A process. It passes events to the machine of its local queue, and executes the actions.
//!
//! A step is everything that happens without an await in between: an answer is processed with everything that follows
//! from it. The driver has no state of its own except whether it is due.

use super::config::{Config, ticks};
use super::hold::{Hold, Holds};
use super::machine::{self, left, now, span};
use super::message::{End, Message, Request, Verb};
use super::mutation::Mutation;
use super::process::{Stage, Tenure, Won};
use super::state::State;
use crate::base::error::StoreError;
use crate::base::options::Mode;
use crate::queue::machine::{
    AcquireSpec, Action, Grant, HoldEnd, HoldIds, Input, RequestReply, unanswered,
};
use crate::store::{self, AcquireReply};

/// The processes. A mutation is applied where its rule is, or where it can be circumvented.
pub(crate) struct Client<'s> {
    pub(crate) config: &'s Config,
    pub(crate) state: &'s mut State,
}

impl Client<'_> {
    pub(crate) fn breaks(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    pub(crate) fn send(&mut self, hold: Hold, verb: Verb) {
        self.state.requests.push(Request {
            hold,
            verb,
            answer: None,
            age: 0,
            awaited: true,
        });
    }

    // ---- the machine ----

    /// Passes an event to the machine of a process, and executes its actions.
    pub(crate) fn step(&mut self, process: u8, input: Input) {
        let queue = &mut self.state.process_mut(process).queue;
        let actions = queue.step(input, now());
        let mut granted = None;
        for action in actions {
            granted = self.perform(action).or(granted);
        }
        for (waiter, _) in (0..).zip(self.config.cast(process).bytes()) {
            let hold = Hold { process, waiter };
            let is_asked_for = self.state.process(hold).is_asked_for(hold);
            let stage = self.state.stage_mut(hold);
            if *stage == Stage::Leaving && !is_asked_for {
                *stage = Stage::Over;
            }
        }
        if let Some(hold) = granted.filter(|_| !self.config.slow_polls) {
            self.poll(hold);
        }
    }

    /// Returns the waiters that were granted the lock.
    fn perform(&mut self, action: Action) -> Option<Hold> {
        match action {
            Action::Send(spec, holds) => self.send_acquire(spec, &holds),
            Action::Release(release) => self.send_release(release),
            Action::Grant(grant) => {
                let hold = machine::hold(grant.hold);
                *self.state.stage_mut(hold) = Stage::Granted(won(hold, grant));
                return Some(hold);
            }
            Action::PassOver(waiter) => {
                let granted = self.state.granted_to(machine::hold(waiter));
                granted.into_iter().for_each(|hold| self.give_back(hold));
            }
            Action::Deny(waiter, denied) => unreachable!("{waiter:?}: {denied:?}"),
        }
        None
    }

    fn send_acquire(&mut self, spec: AcquireSpec, holds: &HoldIds) {
        let first = machine::hold(holds[0]);
        if spec.mode == Mode::Exclusive {
            return self.send(first, Verb::Acquire);
        }
        let none = Holds::none(first.process);
        let holds = holds
            .iter()
            .fold(none, |all, hold| all.with(machine::hold(*hold)));
        let limit = spec.limit.map(u8::try_from);
        let limit = limit.transpose().expect("a limit of the model");
        self.send(first, Verb::Share { holds, limit });
    }

    fn send_release(&mut self, release: HoldEnd) {
        let hold = machine::hold(release.hold);
        let stage = self.state.stage_mut(hold);
        if *stage == Stage::Over {
            // The mutation breaks the rule by which it is released.
            return;
        }
        *stage = Stage::Releasing;
        self.call_off(hold);
        let end = match release.end(now()) {
            store::ReleaseKind::Short => End::Short,
            store::ReleaseKind::Full(leftovers) => End::Full(leftovers),
        };
        let end = self.shortened(end);
        self.send(hold, Verb::Release { end });
    }

    /// No task waits any more for what the watchdog of a body has in flight. It may still be executed.
    pub(crate) fn call_off(&mut self, hold: Hold) {
        let others = |request: &&mut Request| request.hold == hold && request.awaited;
        for request in self.state.requests.iter_mut().filter(others) {
            request.awaited &= matches!(request.verb, Verb::Acquire | Verb::Share { .. });
        }
    }

    pub(crate) fn shortened(&self, end: End) -> End {
        match end {
            End::Full(_) if self.breaks(Mutation::ShortReleaseAlways) => End::Short,
            _ => end,
        }
    }

    // ---- callers ----

    pub(crate) fn arrive(&mut self, hold: Hold) {
        *self.state.stage_mut(hold) = Stage::Waiting;
        let join = Input::Join(AcquireSpec {
            request: machine::request(hold),
            mode: self.config.mode(hold),
            limit: self.config.limit(hold).map(u32::from),
            grace: std::time::Duration::ZERO,
            may_inherit: self.config.mode(hold) == Mode::Exclusive,
        });
        self.step(hold.process, join);
    }

    /// The caller is polled and claims the lock.
    pub(crate) fn poll(&mut self, hold: Hold) {
        let Stage::Granted(won) = *self.state.stage_mut(hold) else {
            return;
        };
        let entered = Input::Entered {
            waiter: machine::id(won.waiter),
            hold: machine::id(hold),
        };
        if won.left == 0 {
            // It must no longer be entered, and is released.
            self.step(hold.process, entered);
            return self.release(hold, won, true);
        }
        let writes = self.config.mode(hold) == Mode::Exclusive;
        let ledger = &mut self.state.ledger;
        // Readers have the token of the lock that they enter.
        let least = ledger.entered + u8::from(writes);
        ledger.disorder |= won.token < least && !ledger.excused;
        ledger.entered = ledger.entered.max(won.token);
        *self.state.stage_mut(hold) = Stage::Inside(Tenure {
            won,
            ttl: ticks::TTL,
            wanted: 1,
            stored: won.stored,
            seq: won.seq,
            changing: false,
            renewing: false,
            lengthen: false,
        });
        self.step(hold.process, entered);
        self.sync(hold);
    }

    /// A waiter is dropped, or a grant that was not entered, or a body.
    pub(crate) fn drop_future(&mut self, hold: Hold) {
        match *self.state.stage_mut(hold) {
            Stage::Waiting => {
                let is_asked_for = self.state.process(hold).is_asked_for(hold);
                let forgets = is_asked_for && self.breaks(Mutation::DroppedWaiterIsForgotten);
                let stage = if forgets { Stage::Over } else { Stage::Leaving };
                *self.state.stage_mut(hold) = stage;
                self.step(hold.process, Input::Leave(machine::id(hold)));
            }
            Stage::Granted(_) => self.give_back(hold),
            _ => self.leave(hold),
        }
    }

    /// A grant is not entered.
    fn give_back(&mut self, hold: Hold) {
        if let Stage::Granted(won) = *self.state.stage_mut(hold) {
            self.step(hold.process, Input::Leave(machine::id(won.waiter)));
            self.release(hold, won, true);
        }
    }

    pub(crate) fn release(&mut self, hold: Hold, won: Won, open: bool) {
        let release = HoldEnd {
            hold: machine::id(hold),
            mode: self.config.mode(hold),
            residue: store::Residue {
                unanswered: won.unanswered,
                nested: won.seq > 0,
            },
            open,
            deadline: now() + span(won.left),
            ttl: span(ticks::TTL),
            since: None,
            with_others: false,
        };
        self.send_release(release);
        // The machine sends the request of the next waiter right behind it.
        self.step(hold.process, Input::Release(machine::id(hold)));
    }

    // ---- answers and messages ----

    /// The store has answered the request in flight, which has this age.
    pub(crate) fn answered(
        &mut self,
        process: u8,
        age: u8,
        replies: Result<Vec<AcquireReply>, StoreError>,
    ) {
        let sent = if self.breaks(Mutation::DeadlineFromReceipt) {
            now()
        } else {
            now() - span(age)
        };
        let reply = RequestReply {
            sent,
            sent_generation: 0,
            generation: 0,
            replies: replies.map(Into::into),
        };
        self.step(process, Input::Reply(reply));
    }

    /// The release of a hold is answered.
    pub(crate) fn released(&mut self, hold: Hold) {
        *self.state.stage_mut(hold) = Stage::Over;
        self.step(hold.process, Input::Released(machine::id(hold)));
    }

    pub(crate) fn hear(&mut self, message: Message) {
        let process = message.holds.process;
        let whole = &self.state.processes[usize::from(process)];
        let is_asked_for = message.holds.iter().any(|hold| whole.is_asked_for(hold));
        let queue = &whole.queue;
        let mut handoff = machine::message(message);
        if self.breaks(Mutation::MessageCountsFromReceipt) {
            handoff = machine::rejuvenated(queue, handoff);
        }
        if is_asked_for && self.breaks(Mutation::MessageOvertakesAnswer) {
            // The machine continues as if the answer had been processed.
            self.state.process_mut(process).queue.in_flight = None;
        }
        let handoff = Input::Handoff {
            message: handoff,
            generation: 0,
        };
        self.step(process, handoff);
    }

    // ---- no answer ----

    /// An acquire is given up.
    pub(crate) fn unanswered(&mut self, process: u8) {
        self.answered(process, 0, Err(unanswered("no answer")));
    }
}

fn won(waiter: Hold, grant: Grant) -> Won {
    Won {
        waiter,
        turns: 0,
        token: u8::try_from(grant.tokens.token().0).expect("a token of the model"),
        left: left(grant.lease.deadline),
        unanswered: grant.unanswered,
        stored: Some(1),
        seq: 0,
    }
}
