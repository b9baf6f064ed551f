//! How long a hold may rely on its lock: a deadline on the local clock, and when it is renewed before.
//!
//! A value without a clock: the present instant is passed in.

use std::iter;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::time::{LeaseTimes, deadline};

/// How soon after the request that confirmed a lease last it is verified because of a disconnect, at the
/// earliest.
///
/// A connection that dies again and again would have each hold renewed each time. That one verification follows
/// several disconnects is safe: it is sent after the last of them, so it answers for all. It comes later by
/// this time at most, and a request of another holder may come before it anyway, while there is no
/// connection: until it is answered it is the tokens that protect the resource (P1).
const VERIFY_PAUSE: Duration = Duration::from_millis(50);

/// The lease of one hold. Once lost it stays lost, whatever answers arrive later.
#[derive(Debug)]
pub(crate) struct Lease {
    times: LeaseTimes,
    /// The count of disconnects before the request that last confirmed the lease.
    disconnects: u64,
    /// The end of `max_hold`.
    end: Option<Instant>,
    lost: Option<LostReason>,
    /// Whether the hold has ended; what was not lost by then never is.
    has_ended: bool,
    /// How much longer the lease lasts in the store at least, in ms.
    grace: u32,
}

/// What must be done for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing before this instant.
    At(Instant),
    Renewal,
    /// It is lost.
    Lost,
}

impl Lease {
    /// A lease that was confirmed by a request before which there were so many disconnects.
    pub(crate) fn new(
        times: LeaseTimes,
        disconnects: u64,
        max_hold: Option<Duration>,
        grace: Duration,
    ) -> Self {
        // An end too far to represent is none.
        let end = max_hold.and_then(|max_hold| times.confirmed.checked_add(max_hold));
        // A hold that the first lease covers ends with it, margin and all: it is never renewed.
        let covers = |max_hold| deadline(times.confirmed, max_hold, grace) <= times.deadline;
        let is_covered = max_hold.filter(|_| end.is_some()).is_some_and(covers);
        Self {
            times,
            disconnects,
            end: if is_covered {
                end.min(Some(times.deadline))
            } else {
                end
            },
            lost: None,
            has_ended: false,
            grace: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// The length to renew to.
    pub(crate) fn ttl(&self) -> Duration {
        self.times.ttl
    }

    /// Renewals ask for at least `ttl` from now on. Returns whether that is longer than before.
    pub(crate) fn raise_ttl(&mut self, ttl: Duration) -> bool {
        // What reaches from the last confirmation to the end of `max_hold` reaches there from a later one too: a
        // longer lease would only let the lock outlive its hold.
        let left = |end: Instant| end.saturating_duration_since(self.times.confirmed);
        let ttl = self.end.map_or(ttl, |end| ttl.min(left(end)));
        let is_longer = ttl > self.times.ttl;
        self.times.ttl = self.times.ttl.max(ttl);
        is_longer
    }

    /// When the lease ends unless it is renewed.
    pub(crate) fn deadline(&self) -> Instant {
        self.end
            .map_or(self.times.deadline, |end| end.min(self.times.deadline))
    }

    /// The times that the next turn of the hold is given.
    pub(crate) fn times(&self) -> LeaseTimes {
        self.times
    }

    /// The count of disconnects before the request that last confirmed it.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// Whether another call graph may go on with it: it has no end of its own, is not lost, and was
    /// confirmed after the last of so many disconnects.
    pub(crate) fn is_open(&self, disconnects: u64) -> bool {
        self.end.is_none() && self.lost.is_none() && self.disconnects == disconnects
    }

    /// Whether it reaches to the end of `max_hold`.
    pub(crate) fn is_covered(&self) -> bool {
        self.end.is_some_and(|end| end <= self.times.deadline)
    }

    /// When the lease must be looked after if there were so many disconnects: a third of the TTL that was last
    /// confirmed after it was, whatever TTL the next renewal asks for; at the deadline, where it already reaches
    /// to the end of `max_hold`; and soon after a disconnect.
    pub(crate) fn due(&self, disconnects: u64) -> Instant {
        let due = if self.is_covered() {
            self.deadline()
        } else {
            self.times.renewal_due
        };
        if self.disconnects == disconnects {
            due
        } else {
            due.min(self.times.confirmed + VERIFY_PAUSE)
        }
    }

    /// Whether it may be renewed now, together with another one: it would be due by `horizon`, and was confirmed after the
    /// last disconnect.
    pub(crate) fn may_be_renewed(&self, disconnects: u64, horizon: Instant) -> bool {
        self.disconnects == disconnects && self.look(disconnects, horizon) == Due::Renewal
    }

    /// The next renewal is due at this instant, if it would be due later.
    pub(crate) fn bring_forward(&mut self, due: Instant) {
        self.times.renewal_due = self.times.renewal_due.min(due);
    }

    /// What must be done for it now.
    pub(crate) fn look(&self, disconnects: u64, now: Instant) -> Due {
        let due = self.due(disconnects);
        match self.lost.or_else(|| self.loss_at(now)) {
            Some(_) => Due::Lost,
            None if now < due => Due::At(due),
            None => Due::Renewal,
        }
    }

    /// The store confirmed that the lease lasts `ttl` from a request that was sent at `sent`.
    ///
    /// A confirmation that comes after the deadline is too late: the lock counted as lost by then. One of a request that was
    /// sent before the last one that was confirmed changes nothing.
    pub(crate) fn confirm(&mut self, sent: Instant, ttl: Duration, now: Instant) {
        if self.lost_by(now).is_none() && sent >= self.times.confirmed {
            let grace = Duration::from_millis(self.grace.into());
            let confirmed = LeaseTimes::new(sent, ttl, ttl, grace);
            self.times.confirmed = sent;
            self.times.renewal_due = self.times.renewal_due.max(confirmed.renewal_due);
            self.times.deadline = self.times.deadline.max(confirmed.deadline);
        }
    }

    /// The machine was suspended for so long, and that was noticed at `now`. What was sent before lengthens nothing more, and the
    /// lease is verified at once. A lease that was confirmed since is not concerned.
    pub(crate) fn suspended(&mut self, by: Duration, now: Instant) {
        if self.times.confirmed > now {
            return;
        }
        for instant in iter::once(&mut self.times.deadline).chain(&mut self.end) {
            *instant = instant.checked_sub(by).unwrap_or(now);
        }
        self.times.confirmed = now;
        self.times.renewal_due = self.times.renewal_due.min(now);
    }

    /// A request was confirmed that was sent after so many disconnects.
    pub(crate) fn verify(&mut self, disconnects: u64) {
        self.disconnects = self.disconnects.max(disconnects);
    }

    /// How the lock was lost at the instant `now`, if it was.
    pub(crate) fn lost_by(&mut self, now: Instant) -> Option<LostReason> {
        self.lost = self.lost.or_else(|| self.loss_at(now));
        self.lost
    }

    /// How it would be lost at this instant.
    fn loss_at(&self, now: Instant) -> Option<LostReason> {
        match self.end {
            _ if self.has_ended => None,
            Some(end) if now >= end => Some(LostReason::MaxHold),
            _ if now >= self.times.deadline => Some(LostReason::Unconfirmed),
            _ => None,
        }
    }

    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Marks the lock as lost; the first reason stands.
    pub(crate) fn lose(&mut self, reason: LostReason) {
        if !self.has_ended {
            self.lost.get_or_insert(reason);
        }
    }

    /// The release of the hold found that the lock had been lost before.
    pub(crate) fn found_lost(&mut self, reason: LostReason) {
        self.lost.get_or_insert(reason);
    }

    /// The hold is over: the lease may run out from now on without being lost.
    pub(crate) fn end(&mut self, now: Instant) {
        self.lost_by(now);
        self.has_ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MOMENT: Duration = Duration::from_millis(1);
    const NONE: Duration = Duration::ZERO;

    fn of(sent: Instant, lease: Duration, ttl: Duration, max_hold: Option<Duration>) -> Lease {
        Lease::new(LeaseTimes::new(sent, lease, ttl, NONE), 0, max_hold, NONE)
    }

    #[test]
    fn a_confirmation_after_the_deadline_does_not_bring_the_lock_back() {
        let sent = Instant::now();
        let mut lease = of(sent, SECOND, SECOND, None);
        lease.confirm(sent + SECOND / 2, 10 * SECOND, sent + SECOND);
        let lost = lease.lost_by(sent + SECOND);
        assert_eq!(lost, Some(LostReason::Unconfirmed));
    }

    #[test]
    fn a_confirmation_counts_from_before_its_request() {
        let sent = Instant::now();
        let mut lease = of(sent, 10 * SECOND, 10 * SECOND, None);
        lease.confirm(sent + SECOND, 10 * SECOND, sent + 2 * SECOND);
        // Less the margin.
        assert_eq!(lease.deadline(), sent + 11 * SECOND - SECOND / 10);
    }

    #[test]
    fn a_renewal_leaves_the_grace() {
        let (sent, grace) = (Instant::now(), 2 * SECOND);
        let times = LeaseTimes::new(sent, 10 * SECOND, 10 * SECOND, grace);
        let mut lease = Lease::new(times, 0, None, grace);
        assert_eq!(lease.deadline(), sent + 8 * SECOND);
        lease.confirm(sent + SECOND, 10 * SECOND, sent + SECOND);
        assert_eq!(lease.deadline(), sent + 9 * SECOND);
    }

    #[test]
    fn a_suspension_counts_like_any_other_time() {
        let sent = Instant::now();
        let mut lease = of(sent, 10 * SECOND, 10 * SECOND, Some(60 * SECOND));
        let now = sent + SECOND;
        lease.suspended(5 * SECOND, now);
        assert_eq!(lease.deadline(), sent + 5 * SECOND - SECOND / 10);
        assert_eq!(lease.look(0, now), Due::Renewal);
        // Sent before the suspension.
        lease.confirm(sent + SECOND / 2, 10 * SECOND, now);
        assert_eq!(lease.deadline(), sent + 5 * SECOND - SECOND / 10);
        lease.confirm(now, 10 * SECOND, now);
        assert_eq!(lease.deadline(), now + 10 * SECOND - SECOND / 10);
        lease.suspended(10 * SECOND, now);
        assert_eq!(lease.lost_by(now), Some(LostReason::Unconfirmed));
    }

    #[test]
    fn a_confirmation_never_shortens_the_lease() {
        let sent = Instant::now();
        let mut lease = of(sent, 10 * SECOND, 10 * SECOND, None);
        let before = (lease.deadline(), lease.due(0));
        lease.confirm(sent, SECOND, sent);
        assert_eq!((lease.deadline(), lease.due(0)), before);
    }

    #[test]
    fn a_re_entry_lengthens_the_lease_to_max_hold_at_most() {
        let mut lease = of(Instant::now(), SECOND, SECOND, Some(3 * SECOND));
        assert!(lease.raise_ttl(10 * SECOND));
        assert_eq!(lease.ttl(), 3 * SECOND);
        assert!(!lease.raise_ttl(10 * SECOND));
    }

    #[test]
    fn a_re_entry_after_a_renewal_lengthens_the_lease_to_what_is_left_of_max_hold() {
        let sent = Instant::now();
        let mut lease = of(sent, SECOND, SECOND, Some(5 * SECOND));
        let renewed = sent + SECOND / 2;
        lease.confirm(renewed, SECOND, renewed);
        assert!(lease.raise_ttl(10 * SECOND));
        assert_eq!(lease.ttl(), 4 * SECOND + SECOND / 2);
    }

    #[test]
    fn a_deadline_that_passed_unseen_counts_at_the_end() {
        let sent = Instant::now();
        let mut lease = of(sent, SECOND, SECOND, None);
        lease.end(sent + SECOND);
        assert_eq!(lease.lost(), Some(LostReason::Unconfirmed));
        let mut lease = of(sent, SECOND, SECOND, None);
        lease.end(sent);
        assert_eq!(lease.lost_by(sent + SECOND), None);
    }

    #[test]
    fn max_hold_ends_the_lease_and_the_renewals() {
        let sent = Instant::now();
        let end = sent + SECOND / 2;
        let mut lease = of(sent, SECOND, SECOND, Some(SECOND / 2));
        assert_eq!(lease.look(0, end - MOMENT), Due::At(end));
        assert_eq!(lease.look(0, end), Due::Lost);
        assert_eq!(lease.lost_by(end), Some(LostReason::MaxHold));
    }

    #[test]
    fn a_lease_is_renewed_after_a_third_and_a_short_one_after_a_quarter() {
        let sent = Instant::now();
        for (length, pause) in [(30 * SECOND, 10 * SECOND), (2 * SECOND, SECOND / 2)] {
            let mut lease = of(sent, length, 30 * SECOND, None);
            let due = sent + pause;
            assert_eq!(lease.look(0, due - MOMENT), Due::At(due));
            assert_eq!(lease.look(0, due), Due::Renewal);
            lease.confirm(due, 30 * SECOND, due);
            assert_eq!(lease.look(0, due), Due::At(due + 10 * SECOND));
        }
    }

    /// The store knows nothing of the longer TTL until a request that asks for it is confirmed.
    #[test]
    fn a_longer_ttl_does_not_put_off_the_renewal_of_the_shorter_lease() {
        let sent = Instant::now();
        let mut lease = of(sent, 3 * SECOND, 3 * SECOND, None);
        assert!(lease.raise_ttl(30 * SECOND));
        assert_eq!(lease.due(0), sent + SECOND);
        // A renewal that was sent before the re-entry.
        lease.confirm(sent + SECOND, 3 * SECOND, sent + SECOND);
        assert_eq!(lease.due(0), sent + 2 * SECOND);
        lease.confirm(sent + SECOND, 30 * SECOND, sent + SECOND);
        assert_eq!(lease.due(0), sent + 11 * SECOND);
    }

    #[test]
    fn a_disconnect_makes_the_renewal_due_until_a_later_request_is_confirmed() {
        let sent = Instant::now();
        let mut lease = of(sent, 30 * SECOND, 30 * SECOND, None);
        let now = sent + SECOND;
        assert_eq!(lease.look(1, now), Due::Renewal);
        // The one that is confirmed was sent before.
        lease.confirm(now, 30 * SECOND, now);
        lease.verify(0);
        assert_eq!(lease.look(1, now), Due::At(now + VERIFY_PAUSE));
        assert_eq!(lease.look(1, now + VERIFY_PAUSE), Due::Renewal);
        lease.confirm(now + VERIFY_PAUSE, 30 * SECOND, now + VERIFY_PAUSE);
        lease.verify(1);
        let next = now + VERIFY_PAUSE + 10 * SECOND;
        assert_eq!(lease.look(1, now + VERIFY_PAUSE), Due::At(next));
    }

    #[test]
    fn disconnects_in_a_row_cost_one_verification_in_each_pause() {
        let sent = Instant::now();
        let mut lease = of(sent, 30 * SECOND, 30 * SECOND, None);
        let mut verified = 0;
        for disconnects in 1..=1_000 {
            let now = sent + u32::try_from(disconnects).unwrap_or(0) * MOMENT;
            if lease.look(disconnects, now) == Due::Renewal {
                verified += 1;
                lease.confirm(now, 30 * SECOND, now);
                lease.verify(disconnects);
            }
        }
        assert_eq!(verified, 20);
    }

    #[test]
    fn a_hold_goes_on_only_if_it_is_verified_and_has_no_end() {
        let sent = Instant::now();
        let lease = of(sent, SECOND, SECOND, None);
        assert!(lease.is_open(0) && !lease.is_open(1));
        assert!(!of(sent, SECOND, SECOND, Some(SECOND)).is_open(0));
        let mut lost = of(sent, SECOND, SECOND, None);
        lost.lose(LostReason::Gone);
        assert!(!lost.is_open(0));
    }
}
