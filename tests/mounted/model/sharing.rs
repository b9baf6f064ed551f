//! The scripts of readers, and which of them are let in: `lua/acquire_shared.lua` and similar scripts, `lua/parts/readers.lua`.

use super::config::ticks;
use super::hold::{Hold, Holds, Token};
use super::message::Answer;
use super::mutation::Mutation;
use super::state::{Member, Place, Want};
use super::store::Script;

impl Script<'_> {
    pub(super) fn share(&mut self, holds: Holds, limit: Option<u8>, outward: u8) -> Answer {
        let gone = &self.state.store.gone;
        let left = holds.filter(|hold| !gone.contains(&hold));
        let process = holds.process;
        if left.is_empty() {
            let (inside, token) = (left, 0);
            return Answer::Shared {
                inside,
                token,
                outward,
            };
        }
        let mut is_shared = self.tidy();
        let is_free = self.state.store.lock.is_none();
        let inside = left.filter(|hold| self.field(hold).is_some());
        let outside = left.filter(|hold| !inside.has(hold));
        for hold in inside.iter() {
            self.lengthen(hold, ticks::TTL);
            is_shared = true;
        }
        if !outside.is_empty() {
            let ahead = if is_free || is_shared {
                self.head()
            } else {
                None
            };
            let is_next = ahead.is_none_or(|place| place.holds.process == process)
                || is_shared && self.breaks(Mutation::ReadersOvertake);
            let has_room =
                self.fits(outside, limit) || self.breaks(Mutation::PermitIgnoresItsLimit);
            if (is_free || is_shared) && is_next && has_room {
                let others = ahead.is_some_and(|place| place.holds.process != process);
                self.state.ledger.overtaken |= others;
                self.leave(process);
                self.enter(outside, ticks::TTL, None);
            } else {
                self.stand(outside, Want::Shared { limit });
            }
        }
        if is_free || is_shared {
            self.admit(None, Some(process));
        }
        let inside = left.filter(|hold| self.field(hold).is_some());
        let token = self.state.store.lock.as_ref().map_or(0, |lock| lock.token);
        Answer::Shared {
            inside,
            token,
            outward,
        }
    }

    pub(super) fn keep(&mut self, hold: Hold, ttl: u8) -> bool {
        let present = self.field(hold).is_some();
        self.lengthen(hold, ttl);
        if self.tidy() {
            self.settle();
            self.admit(None, None);
        }
        present
    }

    // parts/readers.lua

    /// Removes the readers whose leases have expired. Returns whether the lock is shared.
    pub(super) fn tidy(&mut self) -> bool {
        let store = &mut self.state.store;
        if let Some(lock) = &mut store.lock {
            let seqs = &mut store.seqs;
            lock.members.retain(|member| {
                let lives = member.own != Some(0);
                if !lives {
                    seqs.retain(|(of, _)| *of != member.hold);
                }
                lives
            });
        }
        if store.lock.take_if(|lock| lock.members.is_empty()).is_some() {
            self.state.ledger.lapsed = true;
        }
        let lock = self.state.store.lock.as_ref();
        lock.is_some_and(|lock| lock.is_shared())
    }

    pub(super) fn settle(&mut self) {
        if let Some(lock) = &mut self.state.store.lock {
            let leases = lock.members.iter().filter_map(|member| member.own);
            lock.lease = leases.max().unwrap_or(lock.lease);
        }
    }

    /// Gives it a lease of its own from now on, which is never shorter than before. The lock lasts as long.
    fn lengthen(&mut self, hold: Hold, lease: u8) {
        if let Some(member) = self.member(hold) {
            member.own = member.own.max(Some(lease));
        }
        if let Some(lock) = self.field(hold) {
            lock.lease = lock.lease.max(lease);
        }
    }

    /// Returns whether this number of further holders fits into the lock, if it is shared.
    fn fits(&self, holds: Holds, limit: Option<u8>) -> bool {
        let (Some(most), Some(lock)) = (limit, &self.state.store.lock) else {
            return true;
        };
        let counts = |_: &u8| self.breaks(Mutation::LimitOfThoseInside);
        let members = lock.members.iter();
        let of_others = members.filter_map(|member| self.config.limit(member.hold));
        let most = of_others.filter(counts).fold(most, u8::max);
        let token = usize::from(self.breaks(Mutation::TokenTakesAPermit));
        lock.members.len() + token + holds.iter().count() <= usize::from(most)
    }

    fn enter(&mut self, holds: Holds, lease: u8, stored: Option<Token>) {
        let inside = self.state.valid().count();
        let mut limits = holds.iter().filter_map(|hold| self.config.limit(hold));
        self.state.ledger.crowded |= limits.any(|most| inside >= usize::from(most));
        let own = Some(lease);
        let members = holds.iter().map(|hold| Member {
            hold,
            depth: 1,
            own,
        });
        match &mut self.state.store.lock {
            Some(lock) => {
                lock.members.extend(members);
                lock.lease = lock.lease.max(lease);
            }
            None => drop(self.open(members.collect(), lease, stored)),
        }
    }

    /// Lets in the first in the line of a lock that is free or shared. The readers of `mine` get the TTL, and no
    /// message.
    pub(super) fn admit(&mut self, stored: Option<Token>, mine: Option<u8>) {
        while let Some(place) = self.head() {
            let is_free = self.state.store.lock.is_none();
            let Place { holds, want, .. } = place;
            let Want::Shared { limit } = want else {
                if is_free {
                    self.grant(place, stored);
                }
                return;
            };
            let is_shared = self
                .state
                .store
                .lock
                .as_ref()
                .is_some_and(|lock| lock.is_shared());
            let has_room = self.fits(holds, limit) || self.breaks(Mutation::LineIgnoresLimits);
            let is_open = is_free || is_shared && has_room;
            if !is_open {
                return;
            }
            self.leave(holds.process);
            let is_mine = mine == Some(holds.process);
            let lease = if is_mine { ticks::TTL } else { ticks::GRANT };
            self.enter(holds, lease, stored);
            if self.breaks(Mutation::GrantWithoutOwnLease) && !is_mine {
                for hold in holds.iter() {
                    self.member(hold)
                        .into_iter()
                        .for_each(|member| member.own = None);
                }
            }
            let token = self.state.store.lock.as_ref().map_or(0, |lock| lock.token);
            if !is_mine {
                self.publish(holds, token);
            }
            if self.breaks(Mutation::OneBatchIsAdmitted) {
                return;
            }
        }
    }
}
