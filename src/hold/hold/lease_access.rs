//! What the renewals read and change in a hold: its lease, its position in the schedule, and its attempts.

use std::time::Duration;

use tokio::time::Instant;

use super::{Hold, ScheduleKey, UnansweredAttempts};
use crate::base::options::Mode;
use crate::base::sync::wait_until;
use crate::hold::lease::PARTS_PER_PERIOD;

/// After a verification, the renewals of holds that were verified together are due in this number of parts.
const SPREAD_PARTS: u64 = PARTS_PER_PERIOD / 2;

/// The number of holds that are verified together and stay so, because they share a request.
const HOLDS_PER_SPREAD_PART: u64 = 32;

/// Its lease.
impl Hold {
    pub(in crate::hold) fn deadline(&self) -> Instant {
        self.state.lock().lease.deadline()
    }

    pub(in crate::hold) fn ttl(&self) -> Duration {
        self.state.lock().lease.ttl()
    }

    /// Notes that a renewal is confirmed that was sent in this generation.
    pub(in crate::hold) fn confirm(&self, sent: Instant, ttl: Duration, generation: u64) {
        let had_attempts = self.change(|state| {
            state.lease.confirm(sent, ttl, Instant::now());
            // The generation is that from before the request. So if a connection was lost since then, the hold is
            // verified once more.
            state.lease.verify(generation);
            // It has shown that its key is sound.
            state.is_renewed_alone = false;
            state.attempts.take().is_some()
        });
        // The other attempts cannot change anything any more. Their tasks are woken outside the mutex.
        if had_attempts {
            self.notify_changed();
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
        let number = state.scheduled.map_or(0, |key| key.number);
        state.lease.align(epoch, |part| match slot {
            // Always the part that the slot of the key selects. So the readers of different keys are spread.
            Some(slot) => part.wrapping_sub(slot) % PARTS_PER_PERIOD,
            None if was_early => (number / HOLDS_PER_SPREAD_PART) % SPREAD_PARTS,
            None => 0,
        });
    }
}

/// Its position in the schedule.
impl Hold {
    /// Enters the schedule with this number, in this generation.
    pub(in crate::hold) fn enter_schedule(
        &self,
        number: u64,
        epoch: Instant,
        generation: u64,
    ) -> ScheduleKey {
        let mut state = self.state.lock();
        state.lease.align(epoch, |_| 0);
        // If a connection was lost after the request of the acquisition, this is soon: the hold is verified.
        let at = state.lease.due(generation);
        *state.scheduled.insert(ScheduleKey { at, number })
    }

    /// Moves to an instant. Returns its position before, and after that.
    pub(in crate::hold) fn move_to(&self, at: Instant) -> Option<(ScheduleKey, ScheduleKey)> {
        let mut state = self.state.lock();
        let key = state.scheduled.as_mut()?;
        let from = *key;
        key.at = at;
        Some((from, *key))
    }

    /// Leaves the schedule. Returns its position, and whether it waited there for its time: no renewal was due, and none
    /// had found it lost.
    pub(in crate::hold) fn leave_schedule(&self, generation: u64) -> Option<(ScheduleKey, bool)> {
        let mut state = self.state.lock();
        let key = state.scheduled.take()?;
        // An attempt has moved it from that time to the time of the next attempt, and a loss has moved it to the far
        // future.
        Some((key, key.at == state.lease.due(generation)))
    }
}

/// The attempts to renew it.
impl Hold {
    /// Notes an attempt that is sent at this instant.
    pub(in crate::hold) fn begin_attempt(&self, sent: Instant) {
        let mut state = self.state.lock();
        // The silence counts from the first attempt without a response, however many follow.
        let first = state.attempts.map_or(sent, |attempts| attempts.first);
        state.attempts = Some(UnansweredAttempts { first, last: sent });
    }

    /// The time at which the first attempt was sent that has no response.
    pub(in crate::hold) fn silent_since(&self) -> Option<Instant> {
        Some(self.state.lock().attempts?.first)
    }

    /// Notes that an attempt has failed. Returns whether no later one was sent.
    pub(in crate::hold) fn fail_attempt(&self, sent: Instant) -> bool {
        let mut state = self.state.lock();
        match &mut state.attempts {
            Some(attempts) if sent < attempts.last => {
                // A failure is a response of the connection, too.
                attempts.first = attempts.last;
                false
            }
            attempts => attempts.take().is_some(),
        }
    }

    /// Wakes what a change may end: the attempts that it settles, and the wait for the end of the minimum time.
    pub(in crate::hold) fn notify_changed(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves when an attempt that was sent at this instant can change nothing any more: the hold has ended or was
    /// lost, or a later attempt was confirmed.
    pub(in crate::hold) async fn await_settled(&self, sent: Instant) {
        let is_settled = || {
            let lease = &self.state.lock().lease;
            let is_settled = lease.has_ended() || lease.lost().is_some();
            (is_settled || lease.times().confirmed > sent).then_some(())
        };
        wait_until(&self.changed, is_settled).await;
    }
}
