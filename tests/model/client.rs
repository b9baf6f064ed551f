//! A process waits: `src/queue`, one step at a time.
//!
//! A step is what happens without an await in between: an answer is read and everything that follows
//! from it is done. The driver task has no state of its own but whether it is due.

use crate::{
    config::{Config, ticks},
    message::{AcquireReply, News, Request, Verb},
    mutation::Mutation,
    process::{Attempt, Stage, Tenure, Waiter},
    state::{Hold, State, Token},
};

/// The processes at work. A mutation is looked up where its rule stands.
pub(crate) struct Client<'s> {
    pub(crate) config: &'s Config,
    pub(crate) state: &'s mut State,
}

/// What an attempt came to: `queue/attempt.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Held { left: u8, token: Token },
    Busy,
    Unanswered,
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

    // ---- the line ----

    /// Joins the line; asks at once if nobody stands before it and no release will hand it the lock.
    pub(crate) fn arrive(&mut self, hold: Hold) {
        self.state.waiter_mut(hold).stage = Stage::Waiting;
        let line = self.state.line(hold.process);
        line.waiting.push(hold.waiter);
        if line.waiting.len() == 1 && self.asks_at_once(hold.process) {
            self.ask(hold.process);
        }
    }

    pub(crate) fn first(&self, process: u8) -> Option<Hold> {
        let line = &self.state.processes[usize::from(process)].line;
        let waiter = *line.waiting.first()?;
        Some(Hold { process, waiter })
    }

    fn asks_at_once(&self, process: u8) -> bool {
        let line = &self.state.processes[usize::from(process)].line;
        line.holder.is_none() || self.config.local_handoffs == 0
    }

    /// Asks for the first in line, unless that has been done.
    pub(crate) fn ask(&mut self, process: u8) {
        let Some(first) = self.first(process) else {
            return;
        };
        self.state.line(process).due = false;
        let waiter = self.state.waiter_mut(first);
        if waiter.attempt == Attempt::None {
            waiter.attempt = Attempt::Own;
            self.send(first, Verb::Acquire);
        }
    }

    /// The lock may be free: the first in line asks, unless a release is to hand it the lock.
    pub(crate) fn kick(&mut self, process: u8) {
        let Some(first) = self.first(process) else {
            return;
        };
        if self.state.waiter(first).attempt != Attempt::None {
            self.state.line(process).kicked = true;
        } else if self.asks_at_once(process) {
            self.ask(process);
        }
    }

    // ---- answers ----

    /// Takes in what the store has told of this hold, in answer to a request of that age.
    pub(crate) fn learn(&mut self, hold: Hold, age: u8, acquired: AcquireReply) -> Outcome {
        let from_receipt = self.breaks(Mutation::DeadlineFromReceipt);
        let waiter = self.state.waiter_mut(hold);
        match acquired {
            AcquireReply::Held { token } => {
                let age = if from_receipt { 0 } else { age };
                let left = ticks::TTL.saturating_sub(age);
                if left > 0 {
                    return Outcome::Held { left, token };
                }
                // The answer took longer than the lease.
                waiter.unanswered = true;
                Outcome::Unanswered
            }
            AcquireReply::Busy { outward } => {
                waiter.queued = true;
                waiter.reading = Some(outward);
                let Some(news) = waiter.notice.take() else {
                    return Outcome::Busy;
                };
                // The lock moved here after this answer was given; the news was faster.
                match self.lease_of(hold, news) {
                    Some(left) => Outcome::Held {
                        left,
                        token: news.token,
                    },
                    None => {
                        self.state.line(hold.process).due = true;
                        Outcome::Busy
                    }
                }
            }
            AcquireReply::Ended => Outcome::Busy,
        }
    }

    /// What is left of the lease that a message tells of: `queue/notice.rs`. It counts from
    /// `a + (g - s)`, and `s - a` is what the reading remembers.
    fn lease_of(&self, hold: Hold, news: News) -> Option<u8> {
        let outward = self.state.waiter(hold).reading?;
        let age = if self.breaks(Mutation::NewsCountsFromReceipt) {
            0
        } else {
            news.age + outward
        };
        let left = ticks::GRANT.saturating_sub(age);
        (left > 0).then_some(left)
    }

    /// The attempt of this hold is answered, or was given up.
    pub(crate) fn resolve(&mut self, hold: Hold, outcome: Outcome, handoffs: u8) {
        match (self.state.waiter(hold).stage, outcome) {
            (Stage::Waiting, Outcome::Held { left, token }) => {
                self.serve(hold, left, token, handoffs);
            }
            (Stage::Waiting, _) => self.settle(hold),
            (Stage::Undoing, outcome) => {
                self.state.waiter_mut(hold).attempt = Attempt::None;
                self.undo(hold, matches!(outcome, Outcome::Held { .. }));
            }
            // It was served by a message.
            _ => self.state.waiter_mut(hold).attempt = Attempt::None,
        }
        self.chosen(hold, outcome);
    }

    /// The attempt was no success: the next one may be made, and news that have come are read.
    fn settle(&mut self, hold: Hold) {
        let waiter = self.state.waiter_mut(hold);
        waiter.attempt = Attempt::None;
        if let Some(news) = waiter.notice.take() {
            self.told(news);
        }
        let line = self.state.line(hold.process);
        if std::mem::take(&mut line.kicked) {
            self.kick(hold.process);
        }
    }

    /// The lock has moved to this waiter.
    pub(crate) fn told(&mut self, news: News) {
        let hold = news.hold;
        let unread = self.breaks(Mutation::NewsOvertakesAnswer);
        let waiter = self.state.waiter_mut(hold);
        // A hold that has entered already, or waits no longer, has no use for the news.
        if waiter.stage != Stage::Waiting {
            return;
        }
        if waiter.attempt != Attempt::None && !unread {
            // The answer that is awaited is to be read first.
            waiter.notice = Some(news);
            return;
        }
        match self.lease_of(hold, news) {
            Some(left) => self.serve(hold, left, news.token, 0),
            None => self.kick(hold.process),
        }
    }

    /// Brings a waiter in the line its lock.
    fn serve(&mut self, hold: Hold, left: u8, token: Token, handoffs: u8) {
        let waiter = self.state.waiter_mut(hold);
        *waiter = Waiter {
            stage: Stage::Granted { left, token },
            unanswered: waiter.unanswered,
            ..Waiter::default()
        };
        let line = self.state.line(hold.process);
        line.remove(hold.waiter);
        line.holder = Some(hold.waiter);
        line.handoffs = handoffs;
        if self.config.local_handoffs == 0 {
            self.kick(hold.process);
        }
        if !self.config.slow_polls {
            self.poll(hold);
        }
    }

    /// The caller is polled and finds the lock: `engine.rs`, `Hold::start`.
    pub(crate) fn poll(&mut self, hold: Hold) {
        let Stage::Granted { left, token } = self.state.waiter(hold).stage else {
            return;
        };
        if left == 0 {
            // It must not be entered any more, and is given back.
            self.release(hold);
            return;
        }
        let ledger = &mut self.state.ledger;
        ledger.disorder |= token <= ledger.entered;
        ledger.entered = ledger.entered.max(token);
        self.state.waiter_mut(hold).stage = Stage::Inside(Tenure {
            token,
            left,
            ttl: ticks::TTL,
            wanted: 1,
            stored: Some(1),
            seq: 0,
            changing: false,
            renewing: false,
            lengthen: false,
        });
    }
}
