//! The actions of the callers, and the other events.

use std::time::Duration;

use super::event::Event;
use super::shell::{Caller, Flight, Record, Shell, choose};
use crate::base::error::FailureClass;
use crate::base::id::Owner;
use crate::base::options::Mode;
use crate::queue::machine::{AcquireSpec, Input};
use crate::store::{AcquireRequest, HandoffMessage, QueueEntry};

impl Shell {
    pub(super) fn happens(&mut self, event: Event) {
        match event {
            Event::Join {
                asks_once,
                is_short,
                may_inherit,
                reads,
            } => {
                let mode = if reads { Mode::Shared } else { Mode::Exclusive };
                self.join(asks_once, is_short, may_inherit, mode);
            }
            Event::Leave(at) => self.leave(at),
            Event::Enter(at) => {
                let is_granted = |caller| matches!(caller, Caller::Granted(_));
                if let Some((waiter, Caller::Granted(hold))) = self.pick(at, is_granted) {
                    self.set(waiter, Caller::Entered(hold));
                    self.step(Input::Entered { waiter, hold });
                }
            }
            Event::HandOff(at) => self.hand_off(at),
            Event::Release(at) => {
                if let Some((waiter, Caller::Entered(hold))) = self.pick(at, is_entered) {
                    self.set(waiter, Caller::Gone);
                    self.release(hold);
                }
            }
            Event::Lost(at) => {
                if let Some((_, Caller::Entered(hold))) = self.pick(at, is_entered) {
                    for lost in self.store.lose(self.now) {
                        if let Some(record) = self.records.get_mut(&lost) {
                            record.is_lost = true;
                        }
                    }
                    self.step(Input::Lost(hold));
                }
            }
            Event::Execute => self.execute(),
            Event::Answer => {
                self.execute();
                self.answer(None);
            }
            Event::Silence => self.answer(Some(FailureClass::OutcomeUnknown)),
            Event::Fail(class) => {
                let is_open = |flight: &Flight| flight.reply.is_none();
                if self.flight.as_ref().is_some_and(is_open) {
                    self.answer(Some(class));
                }
            }
            Event::Haunt(at) => {
                if let Some(ghost) = choose(&mut self.ghosts, at) {
                    self.store.execute(&ghost, self.now);
                }
            }
            Event::Finish(at) => {
                if let Some(release) = choose(&mut self.releases, at) {
                    self.store.release(release, self.now);
                    self.step(Input::Released(release.hold));
                }
            }
            Event::Message(at) => {
                if let Some(message) = self.store.message(at) {
                    self.hear(message);
                }
            }
            Event::LoseMessage(at) => drop(self.store.message(at)),
            Event::Another { comes: true, reads } => self.store.another_comes(reads, self.now),
            Event::Another { comes: false, .. } => self.store.another_goes(self.now),
            Event::Reconnect => self.generation += 1,
            Event::Listening(listens) => self.step(Input::Listening(listens)),
            Event::MaybeFree => self.step(Input::MaybeFree),
            Event::Pass { millis, is_late } => {
                self.now += Duration::from_millis(millis);
                if !is_late {
                    self.drive();
                }
            }
        }
    }

    pub(super) fn hear(&mut self, message: HandoffMessage) {
        let generation = self.generation;
        self.step(Input::Handoff {
            message,
            generation,
        });
    }

    fn join(&mut self, asks_once: bool, is_short: bool, may_inherit: bool, mode: Mode) {
        let hold = Owner::new().next_hold();
        let ttl = Duration::from_millis(if is_short { 600 } else { 3_000 });
        let heartbeat = self.queueing.heartbeat(ttl);
        let entry = (!asks_once).then_some(QueueEntry {
            inbox: self.inbox,
            grant: (2 * heartbeat).min(ttl),
            life: 2 * heartbeat,
        });
        let request = AcquireRequest {
            hold,
            ttl,
            entry,
            with_others: false,
        };
        self.callers.push((hold, Caller::Waits { asks_once }));
        self.records.insert(hold, Record::of(mode));
        self.step(Input::Join(AcquireSpec {
            request,
            mode,
            limit: None,
            grace: Duration::ZERO,
            may_inherit,
        }));
    }

    pub(super) fn leave(&mut self, at: usize) {
        let may_leave = |caller| matches!(caller, Caller::Waits { .. } | Caller::Granted(_));
        let Some((waiter, caller)) = self.pick(at, may_leave) else {
            return;
        };
        self.set(waiter, Caller::Gone);
        self.step(Input::Leave(waiter));
        if let Caller::Granted(hold) = caller {
            self.release(hold);
        }
    }

    pub(super) fn hand_off(&mut self, at: usize) {
        let Some((before, Caller::Entered(hold))) = self.pick(at, is_entered) else {
            return;
        };
        let Record { grant, mode, .. } = self.records[&hold];
        let Some(grant) = grant.filter(|_| mode == Mode::Exclusive) else {
            return;
        };
        if let Some(waiter) = self.machine.next_in_memory(grant.lease.ttl, false) {
            assert_eq!(Some(waiter), self.first());
            self.set(before, Caller::Gone);
            self.set(waiter, Caller::Granted(hold));
            let until = grant.lease.deadline;
            self.step(Input::HandOff {
                hold,
                waiter,
                until,
            });
        }
    }
}

pub(super) fn is_entered(caller: Caller) -> bool {
    matches!(caller, Caller::Entered(_))
}
