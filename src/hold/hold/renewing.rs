//! What the renewals want to know of a hold, and what they tell it.

use std::time::Duration;

use tokio::runtime;
use tokio::time::Instant;

use super::Hold;
use crate::base::option_types::{Confirm, Mode};
use crate::hold::lease::Due;
use crate::hold::schedule::ScheduleSlot;

/// What the holds have in common that may be renewed by one request, where the keys allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::hold) struct RenewalTerms {
    pub(in crate::hold) ttl: Duration,
    confirm: Option<Confirm>,
}

impl Hold {
    /// When the lease ends unless it is renewed.
    pub(in crate::hold) fn deadline(&self) -> Instant {
        self.state.lock().lease.deadline()
    }

    /// When the lease must be looked after; see [`Lease::due`].
    pub(in crate::hold) fn due(&self, disconnects: u64) -> Instant {
        self.state.lock().lease.due(disconnects)
    }

    /// What must be done for the lease; see [`Lease::look`]. It reports no loss, so that it may be asked under
    /// the mutex of the schedules.
    pub(in crate::hold) fn look(&self, disconnects: u64, now: Instant) -> Due {
        self.state.lock().lease.look(disconnects, now)
    }

    /// The count of disconnects before the request that last confirmed the lease.
    pub(in crate::hold) fn disconnects(&self) -> u64 {
        self.state.lock().lease.disconnects()
    }

    /// What the next renewal asks for.
    pub(in crate::hold) fn ttl(&self) -> Duration {
        self.state.lock().lease.ttl()
    }

    /// Whether the lease reaches to the end of `max_hold`, and is renewed no more.
    pub(in crate::hold) fn is_covered(&self) -> bool {
        self.state.lock().lease.is_covered()
    }

    /// Where it stands in the schedule, and on which runtime that is.
    pub(in crate::hold) fn seat(&self) -> Option<(ScheduleSlot, runtime::Id)> {
        self.slot.get().map(|slot| (*slot, self.runtime))
    }

    /// It has come into the schedule.
    pub(in crate::hold) fn set_slot(&self, slot: ScheduleSlot) {
        // It comes once.
        let _ = self.slot.set(slot);
    }

    /// A renewal that was sent after so many disconnects is confirmed.
    pub(in crate::hold) fn confirm(&self, sent: Instant, ttl: Duration, disconnects: u64) {
        self.change(|state| {
            state.lease.confirm(sent, ttl, Instant::now());
            state.lease.verify(disconnects);
            state.is_renewed_alone = false;
        });
    }

    /// The machine was suspended for so long, and that was noticed at `now`.
    pub(in crate::hold) fn suspended(&self, by: Duration, now: Instant) {
        self.change(|state| {
            state.lease.suspended(by, now);
            state.lease.lost_by(now)
        });
        // The deadline that they wait for is an earlier one now.
        self.over.notify_waiters();
    }

    /// Wakes a renewal that is in flight, and the task that publishes the label, after the end.
    pub(in crate::hold) fn call_off(&self) {
        self.over.notify_waiters();
    }

    /// Renewals ask for at least `ttl` from now on.
    pub(in crate::hold) fn raise_ttl(&self, ttl: Duration) {
        self.change(|state| state.lease.raise_ttl(ttl));
    }

    /// Its terms, if it is renewed together with others that have the same; `None` for a reader, for one of the holds of an
    /// acquisition of several keys, and for a hold that must be renewed alone.
    pub(in crate::hold) fn renewal_terms(&self) -> Option<RenewalTerms> {
        let state = self.state.lock();
        let is_single = self.group.is_none() && state.mode == Mode::Exclusive;
        (is_single && !state.is_renewed_alone).then(|| RenewalTerms {
            ttl: state.lease.ttl(),
            confirm: self.confirm,
        })
    }

    /// Whether the next request that renews it must be about this hold alone.
    pub(in crate::hold) fn is_renewed_alone(&self) -> bool {
        self.state.lock().is_renewed_alone
    }

    /// The next request that renews it is about this hold alone.
    pub(in crate::hold) fn renew_alone(&self) {
        self.state.lock().is_renewed_alone = true;
    }

    /// See [`Lease::may_be_renewed`](crate::hold::lease::Lease::may_be_renewed).
    pub(in crate::hold) fn may_be_renewed(&self, disconnects: u64, horizon: Instant) -> bool {
        self.state.lock().lease.may_be_renewed(disconnects, horizon)
    }

    /// The next renewal is due at this instant at the latest.
    pub(in crate::hold) fn bring_forward(&self, due: Instant) {
        self.state.lock().lease.bring_forward(due);
    }
}
