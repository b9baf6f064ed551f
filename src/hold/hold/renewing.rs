//! The part of a hold that the renewals read and change.

use std::time::Duration;

use tokio::runtime;
use tokio::time::Instant;

use super::{Attempts, Hold, Place};
use crate::base::options::{Confirm, Mode};
use crate::hold::lease::PARTS;

/// After a verification, the renewals of holds that were verified together are due in this number of parts.
const SPREAD: u64 = PARTS / 2;

/// The number of holds that are verified together and stay so, because they share a request.
const TOGETHER: u64 = 32;

/// The terms that holds must share to be renewed by one request, if the keys allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::hold) struct RenewalTerms {
    pub(in crate::hold) ttl: Duration,
    pub(in crate::hold) confirm: Option<Confirm>,
}

/// Its lease.
impl Hold {
    /// The time at which the lease expires unless it is renewed.
    pub(in crate::hold) fn deadline(&self) -> Instant {
        self.state.lock().lease.deadline()
    }

    /// Returns whether it was neither ended nor lost, so that renewals matter.
    pub(in crate::hold) fn is_renewed(&self) -> bool {
        self.depth() > 0 && self.lost().is_none()
    }

    /// The generation before the request that last confirmed the lease.
    pub(in crate::hold) fn generation(&self) -> u64 {
        self.state.lock().lease.generation()
    }

    /// The TTL that the next renewal requests.
    pub(in crate::hold) fn ttl(&self) -> Duration {
        self.state.lock().lease.ttl()
    }

    pub(in crate::hold) fn renewal_terms(&self) -> RenewalTerms {
        RenewalTerms {
            ttl: self.ttl(),
            confirm: self.confirm,
        }
    }

    /// Notes that a renewal is confirmed that was sent in this generation.
    pub(in crate::hold) fn confirm(&self, sent: Instant, ttl: Duration, generation: u64) {
        let had_attempts = self.change(|state| {
            state.lease.confirm(sent, ttl, Instant::now());
            state.lease.verify(generation);
            state.is_renewed_alone = false;
            state.attempts.take().is_some()
        });
        if had_attempts {
            self.over.notify_waiters();
        }
    }

    /// Chooses the time of the next renewal after one, so that holds meet, and those that a disconnect has made due
    /// together are spread again. It is never later than the time that the lease has chosen.
    pub(in crate::hold) fn align(&self, epoch: Instant, was_early: bool) {
        // The readers of one key meet, whenever they came.
        let slot = match self.mode {
            Mode::Shared => Some(u64::from(self.key.slot())),
            Mode::Exclusive => None,
        };
        let mut state = self.state.lock();
        let number = state.place.map_or(0, |place| place.number);
        state.lease.align(epoch, |part| match slot {
            Some(slot) => part.wrapping_sub(slot) % PARTS,
            None if was_early => (number / TOGETHER) % SPREAD,
            None => 0,
        });
    }

    /// Wakes a renewal that is in flight, after the end.
    pub(in crate::hold) fn call_off(&self) {
        self.over.notify_waiters();
    }
}

/// Its place in the schedule.
impl Hold {
    pub(in crate::hold) fn runtime(&self) -> runtime::Id {
        self.runtime
    }

    /// Enters the schedule with this number, in this generation.
    pub(in crate::hold) fn enter_schedule(
        &self,
        number: u64,
        epoch: Instant,
        generation: u64,
    ) -> Place {
        let mut state = self.state.lock();
        state.lease.align(epoch, |_| 0);
        let at = state.lease.due(generation);
        *state.place.insert(Place { at, number })
    }

    /// Moves to an instant. Returns its place before, and after that.
    pub(in crate::hold) fn move_to(&self, at: Instant) -> Option<(Place, Place)> {
        let mut state = self.state.lock();
        let place = state.place.as_mut()?;
        let from = *place;
        place.at = at;
        Some((from, *place))
    }

    /// Leaves the schedule. Returns its place, and whether it waited there for its time: no renewal was due, and none
    /// had found it lost.
    pub(in crate::hold) fn leave_schedule(&self, generation: u64) -> Option<(Place, bool)> {
        let mut state = self.state.lock();
        let place = state.place.take()?;
        Some((place, place.at == state.lease.due(generation)))
    }
}

/// The attempts to renew it.
impl Hold {
    /// Notes an attempt that is sent at this instant.
    pub(in crate::hold) fn begin_attempt(&self, sent: Instant) {
        let mut state = self.state.lock();
        let first = state.attempts.map_or(sent, |attempts| attempts.first);
        state.attempts = Some(Attempts { first, last: sent });
    }

    /// The time at which the first attempt was sent that has no response.
    pub(in crate::hold) fn silent_since(&self) -> Option<Instant> {
        Some(self.state.lock().attempts?.first)
    }

    /// Notes that an attempt has failed. Returns whether no later one was sent.
    pub(in crate::hold) fn fail_attempt(&self, sent: Instant) -> bool {
        let mut state = self.state.lock();
        let is_last = state.attempts.is_some_and(|it| it.last <= sent);
        // A failure is a response of the connection, too.
        state.attempts = state.attempts.filter(|_| !is_last).map(|it| Attempts {
            first: it.last,
            ..it
        });
        is_last
    }
}
