//! A body runs under the lock: `src/hold`.

use super::client::Client;
use super::config::ticks;
use super::hold::Hold;
use super::machine;
use super::message::Verb;
use super::mutation::Mutation;
use super::process::Stage;
use super::state::State;
use crate::base::options::Mode;
use crate::queue::machine::Input;

impl Client<'_> {
    /// The body ends. The next waiter goes on with its hold in memory, or it is released.
    pub(crate) fn leave(&mut self, hold: Hold) {
        if !self.hand_off(hold) {
            self.end(hold, true);
        }
    }

    fn end(&mut self, hold: Hold, open: bool) {
        if let Some(tenure) = self.state.tenure(hold) {
            let won = tenure.left();
            self.release(hold, won, open);
        }
    }

    /// As `LocalQueues::hand_off`: the machine says who is next.
    fn hand_off(&mut self, hold: Hold) -> bool {
        let Some(&mut tenure) = self.state.tenure(hold) else {
            return false;
        };
        let lock = self.state.store.lock.as_ref();
        let is_ahead = lock.is_none_or(|lock| lock.ahead);
        let is_open = tenure.won.left > 0 && !tenure.lengthen && !is_ahead;
        if self.config.mode(hold) == Mode::Shared || !is_open || self.config.turns == 0 {
            return false;
        }
        let queue = &self.state.process(hold).queue;
        let next = if self.breaks(Mutation::TurnsHaveNoEnd) {
            queue.waiters.first().map(|first| first.request.hold)
        } else {
            queue.next_in_memory(machine::span(tenure.ttl), false)
        };
        let Some(next) = next.filter(|_| queue.is_held_by(machine::id(hold))) else {
            return false;
        };
        let waiter = machine::hold(next);
        let mut won = tenure.left();
        won.waiter = waiter;
        won.turns += 1;
        won.token += u8::from(!self.breaks(Mutation::TurnKeepsItsToken));
        let State { store, ledger, .. } = &mut *self.state;
        // The clock has passed the token, unless it was set back since the server gave the first one.
        ledger.excused |= ledger.set_back;
        ledger.turned = true;
        if !ledger.set_back {
            store.clock = store.clock.max(won.token);
        }
        ledger.given = ledger.given.max(won.token);
        self.call_off(hold);
        *self.state.stage_mut(waiter) = Stage::Over;
        *self.state.stage_mut(hold) = Stage::Granted(won);
        let until = machine::now() + machine::span(won.left);
        let hold_id = machine::id(hold);
        let hand_off = Input::HandOff {
            hold: hold_id,
            waiter: next,
            until,
        };
        self.step(hold.process, hand_off);
        if !self.config.slow_polls {
            self.poll(hold);
        }
        true
    }

    /// The watchdog notices that the lock is lost, and the body is dropped.
    pub(crate) fn lose(&mut self, hold: Hold) {
        self.step(hold.process, Input::Lost(machine::id(hold)));
        self.end(hold, false);
    }

    // ---- the lease ----

    pub(crate) fn renew(&mut self, hold: Hold) {
        if let Some(tenure) = self.state.tenure(hold) {
            tenure.renewing = true;
            let ttl = tenure.ttl;
            let writes = self.config.mode(hold) == Mode::Exclusive;
            let is_plain = writes || self.breaks(Mutation::ReadersRenewPlainly);
            self.send(
                hold,
                if is_plain {
                    Verb::Renew { ttl }
                } else {
                    Verb::Keep { ttl }
                },
            );
        }
    }

    pub(crate) fn renewed(&mut self, hold: Hold, age: u8, ttl: u8, present: bool) {
        let Some(tenure) = self.state.tenure(hold) else {
            return;
        };
        tenure.renewing = false;
        if present {
            self.confirm(hold, age, ttl);
        } else {
            self.lose(hold);
        }
    }

    /// The lease lasts `ttl` from a request of that age. A confirmation after the deadline is too late.
    fn confirm(&mut self, hold: Hold, age: u8, ttl: u8) {
        let from_receipt = self.breaks(Mutation::DeadlineFromReceipt);
        if let Some(tenure) = self.state.tenure(hold).filter(|tenure| tenure.won.left > 0) {
            let age = if from_receipt { 0 } else { age };
            tenure.won.left = tenure.won.left.max(ttl.saturating_sub(age));
        }
    }

    // ---- the depth ----

    /// Enters once more, and requests a longer lease.
    pub(crate) fn reenter(&mut self, hold: Hold) {
        if let Some(tenure) = self.state.tenure(hold) {
            tenure.wanted += 1;
            tenure.lengthen |= tenure.ttl < ticks::LONG_TTL;
            tenure.ttl = ticks::LONG_TTL;
        }
        self.sync(hold);
    }

    /// Leaves the innermost entry.
    pub(crate) fn exit(&mut self, hold: Hold) {
        if let Some(tenure) = self.state.tenure(hold) {
            tenure.wanted -= 1;
        }
        self.sync(hold);
    }

    /// Updates the depth in the store to the wanted one, with one change at a time.
    pub(crate) fn sync(&mut self, hold: Hold) {
        let Some(tenure) = self.state.tenure(hold) else {
            return;
        };
        let settled = tenure.stored == Some(tenure.wanted) && !tenure.lengthen;
        if settled || tenure.changing || tenure.won.left == 0 {
            return;
        }
        tenure.changing = true;
        tenure.stored = None;
        tenure.seq += 1;
        let change = Verb::Depth {
            target: tenure.wanted,
            seq: tenure.seq,
            lengthen: tenure.lengthen,
        };
        self.send(hold, change);
    }

    pub(crate) fn changed(&mut self, hold: Hold, age: u8, verb: Verb, present: bool) {
        let Verb::Depth {
            target, lengthen, ..
        } = verb
        else {
            return;
        };
        if lengthen && present {
            self.confirm(hold, age, ticks::LONG_TTL);
        }
        let Some(tenure) = self.state.tenure(hold) else {
            return;
        };
        tenure.changing = false;
        if present {
            tenure.stored = Some(target);
            tenure.lengthen &= !lengthen;
            self.sync(hold);
        } else {
            self.lose(hold);
        }
    }

    /// A request about the lease or the depth has no response.
    pub(crate) fn unknown(&mut self, hold: Hold, verb: Verb) {
        let Some(tenure) = self.state.tenure(hold) else {
            return;
        };
        match verb {
            Verb::Renew { .. } | Verb::Keep { .. } => tenure.renewing = false,
            Verb::Depth { .. } => {
                tenure.changing = false;
                self.sync(hold);
            }
            Verb::Acquire | Verb::Share { .. } | Verb::Release { .. } => {}
        }
    }
}
