//! The part of a hold that the renewals read and change.

use std::time::Duration;

use tokio::runtime;
use tokio::time::Instant;

use super::Hold;
use crate::base::option_types::{Confirm, Mode};
use crate::hold::lease::Due;
use crate::hold::schedule::ScheduleSlot;

/// The terms that holds must share to be renewed by one request, if the keys allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::hold) struct RenewalTerms {
    pub(in crate::hold) ttl: Duration,
    confirm: Option<Confirm>,
}

impl Hold {
    /// The time at which the lease expires unless it is renewed.
    pub(in crate::hold) fn deadline(&self) -> Instant {
        self.state.lock().lease.deadline()
    }

    /// The time at which the lease must be handled; see [`Lease::due`].
    pub(in crate::hold) fn due(&self, disconnects: u64) -> Instant {
        self.state.lock().lease.due(disconnects)
    }

    /// What must be done for the lease; see [`Lease::look`]. It reports no loss, so that it may be called under the
    /// mutex of the schedules.
    pub(in crate::hold) fn look(&self, disconnects: u64, now: Instant) -> Due {
        self.state.lock().lease.look(disconnects, now)
    }

    /// The count of disconnects before the request that last confirmed the lease.
    pub(in crate::hold) fn disconnects(&self) -> u64 {
        self.state.lock().lease.disconnects()
    }

    /// The TTL that the next renewal requests.
    pub(in crate::hold) fn ttl(&self) -> Duration {
        self.state.lock().lease.ttl()
    }

    /// Returns whether the lease lasts until the end of `max_hold`, and is no longer renewed.
    pub(in crate::hold) fn is_covered(&self) -> bool {
        self.state.lock().lease.is_covered()
    }

    /// Its slot in the schedule, and the runtime of the schedule.
    pub(in crate::hold) fn seat(&self) -> Option<(ScheduleSlot, runtime::Id)> {
        self.slot.get().map(|slot| (*slot, self.runtime))
    }

    /// Notes its slot in the schedule.
    pub(in crate::hold) fn set_slot(&self, slot: ScheduleSlot) {
        // It enters a schedule only once.
        let _ = self.slot.set(slot);
    }

    /// Notes that a renewal is confirmed that was sent after this number of disconnects.
    pub(in crate::hold) fn confirm(&self, sent: Instant, ttl: Duration, disconnects: u64) {
        self.change(|state| {
            state.lease.confirm(sent, ttl, Instant::now());
            state.lease.verify(disconnects);
            state.is_renewed_alone = false;
        });
    }

    /// Wakes a renewal that is in flight, after the end.
    pub(in crate::hold) fn call_off(&self) {
        self.over.notify_waiters();
    }

    /// Renewals request at least `ttl` from now on.
    pub(in crate::hold) fn raise_ttl(&self, ttl: Duration) {
        self.change(|state| state.lease.raise_ttl(ttl));
    }

    /// Its terms, if it is renewed together with others that have the same terms. `None` for a reader, for one of the
    /// holds of an acquisition of several keys, and for a hold that must be renewed alone.
    pub(in crate::hold) fn renewal_terms(&self) -> Option<RenewalTerms> {
        if self.group.is_some() || self.mode == Mode::Shared {
            return None;
        }
        let state = self.state.lock();
        (!state.is_renewed_alone).then(|| RenewalTerms {
            ttl: state.lease.ttl(),
            confirm: self.confirm,
        })
    }

    /// Returns whether the next request that renews it must be about this hold only.
    pub(in crate::hold) fn is_renewed_alone(&self) -> bool {
        self.state.lock().is_renewed_alone
    }

    /// Makes the next request that renews it be about this hold only.
    pub(in crate::hold) fn renew_alone(&self) {
        self.state.lock().is_renewed_alone = true;
    }

    /// See [`Lease::may_be_renewed`](crate::hold::lease::Lease::may_be_renewed).
    pub(in crate::hold) fn may_be_renewed(&self, disconnects: u64, horizon: Instant) -> bool {
        self.state.lock().lease.may_be_renewed(disconnects, horizon)
    }

    /// Makes the next renewal due at this instant at the latest.
    pub(in crate::hold) fn bring_forward(&self, due: Instant) {
        self.state.lock().lease.bring_forward(due);
    }
}
