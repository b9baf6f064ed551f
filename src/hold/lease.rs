//! How long a hold may rely on its lock: a deadline on the local clock, and when it is renewed before.
//!
//! A value without a clock: the present instant is passed in.

use std::iter;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::time::{Grace, LeaseTimes, deadline};

#[cfg(test)]
mod tests;

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
    grace: Grace,
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
        grace: Grace,
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
            grace,
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
            let confirmed = LeaseTimes::new(sent, ttl, ttl, self.grace);
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
