//! The scripts in `lua/`, with the same branches: each is one atomic step of the store.

use super::config::{Config, ticks};
use super::hold::{Hold, Holds, Token};
use super::message::{Acquired, Answer, End, Message, Request, Verb};
use super::mutation::Mutation;
use super::state::{Lock, Member, Place, State, Want};
use crate::store::Residue;

/// A script. A mutation is applied where its rule is.
pub(crate) struct Script<'s> {
    pub(super) config: &'s Config,
    pub(super) state: &'s mut State,
}

/// Executes a request, and returns its response.
pub(crate) fn execute(config: &Config, state: &mut State, request: &Request) -> Answer {
    let hold = request.hold;
    let mut script = Script { config, state };
    match request.verb {
        Verb::Acquire => Answer::Acquired(script.acquire(hold, request.age)),
        Verb::Share { holds, limit } => script.share(holds, limit, request.age),
        Verb::Keep { ttl } => Answer::Present(script.keep(hold, ttl)),
        Verb::Depth {
            target,
            seq,
            lengthen,
        } => Answer::Present(script.depth(hold, target, seq, lengthen)),
        Verb::Renew { ttl } => Answer::Present(script.renew(hold, ttl)),
        Verb::Release { end } => Answer::Present(script.release(hold, end)),
    }
}

impl Script<'_> {
    pub(super) fn breaks(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// The lock, if this hold is in it.
    pub(super) fn field(&mut self, hold: Hold) -> Option<&mut Lock> {
        let lock = self.state.store.lock.as_mut();
        lock.filter(|lock| lock.member(hold).is_some())
    }

    /// Its field.
    pub(super) fn member(&mut self, hold: Hold) -> Option<&mut Member> {
        let lock = self.state.store.lock.as_mut()?;
        lock.members.iter_mut().find(|member| member.hold == hold)
    }

    // acquire.lua

    fn acquire(&mut self, hold: Hold, outward: u8) -> Acquired {
        if self.state.store.gone.contains(&hold) {
            return Acquired::Ended;
        }
        let counts_again = self.breaks(Mutation::AcquireCountsAgain);
        let is_shared = self.tidy();
        if let Some(lock) = self.field(hold) {
            // The request is repeated: it gets the same token, and never a shorter lease.
            lock.lease = lock.lease.max(ticks::TTL);
            let token = lock.token;
            if let Some(member) = self.member(hold) {
                member.depth += u8::from(counts_again);
            }
            return Acquired::Held { token };
        }
        let mut ahead = None;
        if self.state.store.lock.is_none() {
            ahead = self
                .head()
                .filter(|place| place.holds.process != hold.process);
            if ahead.is_none() {
                self.leave(hold.process);
                return self.take(hold, ticks::TTL, None);
            }
        }
        self.stand(Holds::one(hold), Want::Alone);
        if ahead.is_some() || is_shared {
            self.admit(None, None);
        }
        Acquired::Busy { outward }
    }

    // depth.lua

    fn depth(&mut self, hold: Hold, target: u8, seq: u8, lengthen: bool) -> bool {
        let blind = self.breaks(Mutation::DepthCountsBlindly);
        let seqs = self.state.store.seqs.iter();
        let last = seqs
            .filter(|(of, _)| *of == hold)
            .map(|(_, seq)| *seq)
            .max();
        let Some(member) = self.member(hold) else {
            return false;
        };
        if blind {
            // There are two depths, so the target shows the direction of the change.
            member.depth = if target > 1 {
                member.depth + 1
            } else {
                member.depth.saturating_sub(1)
            };
        } else if last < Some(seq) {
            member.depth = target;
        } else {
            // A duplicate that arrives late must not undo a newer change.
            return true;
        }
        if lengthen {
            member.own = member.own.map(|own| own.max(ticks::LONG_TTL));
        }
        if let Some(lock) = self.field(hold).filter(|_| lengthen) {
            lock.lease = lock.lease.max(ticks::LONG_TTL);
        }
        let seqs = &mut self.state.store.seqs;
        seqs.retain(|(of, _)| *of != hold);
        seqs.push((hold, seq));
        true
    }

    // renew.lua

    fn renew(&mut self, hold: Hold, ttl: u8) -> bool {
        if self.breaks(Mutation::RenewRecreates) && self.state.store.lock.is_none() {
            self.take(hold, ttl, None);
        }
        let shortens = self.breaks(Mutation::RenewShortens);
        let Some(lock) = self.field(hold) else {
            return false;
        };
        lock.lease = if shortens { ttl } else { lock.lease.max(ttl) };
        true
    }

    // release.lua

    fn release(&mut self, hold: Hold, end: End) -> bool {
        let any = self.breaks(Mutation::ReleaseOfAny);
        let frees = self.breaks(Mutation::LeaverFreesTheLock);
        let lock = &mut self.state.store.lock;
        let ended = lock.as_mut().filter(|it| it.member(hold).is_some() || any);
        let stored = ended.map(|lock| {
            lock.members.retain(|it| it.hold != hold && !any);
            lock.token
        });
        lock.take_if(|lock| lock.members.is_empty() || frees && stored.is_some());
        self.state.ledger.lapsed &= stored.is_none();
        self.clear(hold, end);
        if stored.is_none() && self.breaks(Mutation::ToldTooEarly) {
            self.tell_head();
        }
        if stored.is_none() && end != End::Short {
            self.depart(hold);
        }
        if self.tidy() {
            if !self.breaks(Mutation::LeaverDoesNotSettle) {
                self.settle();
            }
            let rule = match stored {
                Some(_) => Mutation::LeavingPermitAdmitsNone,
                None => Mutation::LeavingWaiterAdmitsNone,
            };
            if !self.breaks(rule) {
                self.admit(None, None);
            }
        } else if self.state.store.lock.is_none() && !self.breaks(Mutation::ReleaseWakesNone) {
            self.admit(stored, None);
        }
        stored.is_some()
    }

    /// Removes a hold that has only waited from the place of its process.
    fn depart(&mut self, hold: Hold) {
        let queue = &mut self.state.store.queue;
        if let Some(place) = queue.iter_mut().find(|place| place.holds.has(hold)) {
            place.holds = place.holds.without(hold);
        }
        queue.retain(|place| !place.holds.is_empty());
    }

    /// Removes the remains of a hold, or leaves its tombstone.
    pub(super) fn clear(&mut self, hold: Hold, end: End) {
        let Residue { unanswered, nested } = end.leftovers();
        if unanswered && !self.breaks(Mutation::NoTombstone) {
            self.state.store.gone.push(hold);
        }
        if nested && !self.breaks(Mutation::NumberStays) {
            self.state.store.seqs.retain(|(of, _)| *of != hold);
        }
    }

    // parts/queue.lua

    /// Takes a free lock with depth 1. Its token is the time. If the lock moves, the token is greater than the stored
    /// one.
    fn take(&mut self, hold: Hold, lease: u8, stored: Option<Token>) -> Acquired {
        let member = Member {
            hold,
            depth: 1,
            own: None,
        };
        let token = self.open(vec![member], lease, stored);
        Acquired::Held { token }
    }

    pub(super) fn open(&mut self, members: Vec<Member>, lease: u8, stored: Option<Token>) -> Token {
        let by_clock = self.breaks(Mutation::MovesByTheClock);
        let State { store, ledger, .. } = &mut *self.state;
        store.clock += 1;
        let least = stored.filter(|_| !by_clock).map_or(0, |stored| stored + 1);
        let token = store.clock.max(least);
        store.lock = Some(Lock {
            members,
            lease,
            token,
            ahead: token > store.clock,
        });
        // If no token is known, a clock that was set back to before the last token gives a smaller one.
        ledger.excused |= ledger.set_back && stored.is_none() && token <= ledger.given;
        let before = if ledger.excused {
            stored.unwrap_or(0)
        } else {
            ledger.given
        };
        ledger.disorder |= token <= before;
        ledger.given = ledger.given.max(token);
        (ledger.lapsed, ledger.turned) = (false, false);
        token
    }

    pub(super) fn leave(&mut self, process: u8) {
        let queue = &mut self.state.store.queue;
        queue.retain(|place| place.holds.process != process);
    }

    /// The first live place. Dead ones before it are removed.
    pub(super) fn head(&mut self) -> Option<Place> {
        let keeps_dead = self.breaks(Mutation::DeadHeadStays);
        let queue = &mut self.state.store.queue;
        while !keeps_dead && queue.first().is_some_and(|place| place.life == 0) {
            queue.remove(0);
        }
        queue.first().copied()
    }

    /// Enters the line at its end, or keeps the place that the process has there.
    pub(super) fn stand(&mut self, holds: Holds, want: Want) {
        let place = Place {
            holds,
            want,
            life: ticks::PLACE,
        };
        let queue = &mut self.state.store.queue;
        match queue
            .iter_mut()
            .find(|other| other.holds.process == holds.process)
        {
            Some(own) => *own = place,
            None => queue.push(place),
        }
    }

    /// Moves a free lock to the head of the line, and notifies it.
    pub(super) fn grant(&mut self, place: Place, stored: Option<Token>) {
        if place.life == 0 {
            return;
        }
        if !self.breaks(Mutation::PlaceStaysWhenGranted) {
            self.leave(place.holds.process);
        }
        for hold in place.holds.iter() {
            if let Acquired::Held { token } = self.take(hold, ticks::GRANT, stored) {
                self.publish(place.holds, token);
            }
        }
    }

    pub(super) fn publish(&mut self, holds: Holds, token: u8) {
        if self.state.processes[usize::from(holds.process)].alive {
            self.state.messages.push(Message {
                holds,
                token,
                age: 0,
            });
        }
    }

    /// A script that sends a message before it knows whether the lock moves.
    fn tell_head(&mut self) {
        if let Some(place) = self.head() {
            let token = self.state.store.clock + 1;
            self.publish(place.holds, token);
        }
    }
}
