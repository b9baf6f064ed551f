//! A process gives back what it has, or may come to have: `src/queue/release.rs` and the undoing of
//! a dropped waiter.

use crate::{
    client::{Client, Outcome},
    message::{AcquireReply, Request, Successor, Verb},
    mutation::Mutation,
    process::{Attempt, Stage, Waiter},
    state::Hold,
};

impl Client<'_> {
    // ---- a future is dropped ----

    /// A waiter is dropped, or a grant that nobody has entered, or a body.
    pub(crate) fn drop_future(&mut self, hold: Hold) {
        if self.state.waiter(hold).stage != Stage::Waiting {
            self.release(hold);
            return;
        }
        let stood_first = self.first(hold.process) == Some(hold);
        let waiter = self.state.waiter_mut(hold);
        let known = waiter.attempt != Attempt::None || waiter.unanswered || waiter.queued;
        waiter.stage = Stage::Undoing;
        waiter.notice = None;
        let in_flight = waiter.attempt;
        self.state.line(hold.process).remove(hold.waiter);
        let forgets =
            in_flight == Attempt::Named && self.breaks(Mutation::DroppedSuccessorIsForgotten);
        if !known || forgets {
            self.over(hold);
            if stood_first {
                self.kick(hold.process);
            }
        } else if in_flight == Attempt::None {
            self.undo(hold, false);
        }
    }

    /// Ends whatever the store holds or may come to hold for a waiter that was dropped.
    pub(crate) fn undo(&mut self, hold: Hold, held: bool) {
        let waiter = self.state.waiter(hold);
        if held || waiter.unanswered || waiter.queued {
            self.release(hold);
        } else {
            self.over(hold);
            self.kick(hold.process);
        }
    }

    fn over(&mut self, hold: Hold) {
        *self.state.waiter_mut(hold) = Waiter {
            stage: Stage::Over,
            ..Waiter::default()
        };
    }

    // ---- a hold is released ----

    /// Names the first in line as successor, unless its own attempt brings it the lock: there is one
    /// request of a process at a time, so an attempt in flight is awaited.
    pub(crate) fn release(&mut self, hold: Hold) {
        let first = self.first(hold.process);
        if let Some(first) =
            first.filter(|&first| self.state.waiter(first).attempt != Attempt::None)
        {
            self.state.waiter_mut(hold).stage = Stage::Choosing {
                first: first.waiter,
            };
            return;
        }
        let line = self.state.line(hold.process);
        if line.holder == Some(hold.waiter) {
            line.holder = first.map(|first| first.waiter);
        }
        let pass = line.handoffs >= self.config.local_handoffs;
        let successor = first.map(|hold| Successor { hold, pass });
        if let Some(first) = first {
            self.state.waiter_mut(first).attempt = Attempt::Named;
        }
        self.send_release(hold, successor);
    }

    fn send_release(&mut self, hold: Hold, successor: Option<Successor>) {
        let waiter = self.state.waiter_mut(hold);
        let tombstone = waiter.unanswered;
        *waiter = Waiter {
            stage: Stage::Releasing,
            unanswered: tombstone,
            ..Waiter::default()
        };
        let release = Verb::Release {
            tombstone,
            successor,
        };
        // What the watchdog has in flight is nobody's any more. It may be executed all the same.
        let others = |request: &&mut Request| request.hold == hold && request.awaited;
        for request in self.state.requests.iter_mut().filter(others) {
            request.awaited &= request.verb == Verb::Acquire;
        }
        self.send(hold, release);
    }

    /// A release has waited for the attempt of this one.
    pub(crate) fn chosen(&mut self, first: Hold, outcome: Outcome) {
        let waits = Stage::Choosing {
            first: first.waiter,
        };
        let holds = self.state.holds();
        let waiting: Vec<Hold> = holds
            .filter(|(hold, waiter)| hold.process == first.process && waiter.stage == waits)
            .map(|(hold, _)| hold)
            .collect();
        for hold in waiting {
            match outcome {
                Outcome::Held { .. } => self.send_release(hold, None),
                Outcome::Busy | Outcome::Unanswered => self.release(hold),
            }
        }
    }

    /// No answer came: the release is sent again, and names the same successor.
    pub(crate) fn release_again(&mut self, hold: Hold, successor: Option<Successor>) {
        let renames = self.breaks(Mutation::SuccessorIsReplaced);
        let Some(named) = successor.filter(|_| renames) else {
            self.send_release(hold, successor);
            return;
        };
        self.state.waiter_mut(named.hold).attempt = Attempt::None;
        if self.state.waiter(named.hold).stage == Stage::Undoing {
            self.over(named.hold);
        }
        self.release(hold);
    }

    /// The release is answered, and with it the attempt of the successor.
    pub(crate) fn released(
        &mut self,
        hold: Hold,
        age: u8,
        successor: Option<Successor>,
        acquired: Option<AcquireReply>,
    ) {
        self.over(hold);
        let process = hold.process;
        if let Some(Successor { hold: next, pass }) = successor {
            let stood = self.state.waiter(next).attempt == Attempt::Named;
            let outcome = match acquired.filter(|_| stood) {
                Some(acquired) => self.learn(next, age, acquired),
                None => {
                    // It is left open what became of it.
                    self.state.waiter_mut(next).queued |= stood;
                    Outcome::Unanswered
                }
            };
            let line = self.state.line(process);
            let handoffs = if pass { 0 } else { line.handoffs + 1 };
            let handoffs = handoffs.min(self.config.local_handoffs);
            if !matches!(outcome, Outcome::Held { .. }) && line.holder == Some(next.waiter) {
                line.holder = None;
            }
            if stood {
                self.resolve(next, outcome, handoffs);
            }
            // In the queue it is told when it has its turn; else it has to ask.
            if matches!(outcome, Outcome::Unanswered) {
                self.kick(process);
            }
        } else {
            self.kick(process);
        }
        let line = self.state.line(process);
        if line.holder == Some(hold.waiter) {
            line.holder = None;
            self.kick(process);
        }
    }
}
