//! The lease of a hold: the deadline until which it may rely on its lock, on the local clock, and the time of its
//! renewal.
//!
//! It is a value without a clock: the present instant is passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::lease_times::{LeaseTimes, RENEWALS_PER_SHORT_LEASE, RENEWALS_PER_TTL, deadline};
use crate::base::timer::after;

/// The minimum time from the request that last confirmed a lease to its verification after a disconnect.
///
/// Without it, a connection that is lost again and again would cause a renewal of each hold each time. It is safe that
/// one verification follows several losses: it is sent after the last of them, so its response covers all. It is
/// delayed by this time at most. A request of another holder may be executed before it anyway, while there is no
/// connection. Until the verification is answered, the tokens protect the resource (P1).
const MIN_VERIFY_INTERVAL: Duration = Duration::from_millis(50);

/// The number of parts into which the time between two renewals is divided. Leases whose renewals are due in the same part
/// are renewed at its beginning, so that they share requests.
pub(crate) const PARTS_PER_PERIOD: u64 = 64;

/// The lease of one hold. Once lost it stays lost, whatever responses arrive later.
#[derive(Debug)]
pub(crate) struct Lease {
    times: LeaseTimes,
    /// The TTL of the last confirmed request.
    confirmed_ttl: Duration,
    /// The generation before the request that last confirmed the lease.
    generation: u64,
    /// The end of `max_hold`.
    end: Option<Instant>,
    lost: Option<LostReason>,
    /// Whether the hold has ended. A lease that was not lost by then is never lost.
    has_ended: bool,
    grace: Duration,
}

impl Lease {
    /// A lease that was confirmed by a request in this generation.
    pub(crate) fn new(
        times: LeaseTimes,
        generation: u64,
        max_hold: Option<Duration>,
        grace: Duration,
    ) -> Self {
        // An end that is too far away to represent is no end.
        let end = max_hold.and_then(|max_hold| times.confirmed.checked_add(max_hold));
        // A hold whose `max_hold` the first lease covers ends with that lease, including the margin. It is never
        // renewed.
        let covers = |max_hold| deadline(times.confirmed, max_hold, grace) <= times.deadline;
        let is_covered = max_hold.filter(|_| end.is_some()).is_some_and(covers);
        let deadline = Some(times.deadline);
        Self {
            times,
            confirmed_ttl: times.ttl,
            generation,
            end: if is_covered { end.min(deadline) } else { end },
            lost: None,
            has_ended: false,
            grace,
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.times.ttl
    }

    /// Returns whether a TTL is wanted that is longer than the last confirmed one.
    pub(crate) fn is_lengthening(&self) -> bool {
        self.confirmed_ttl < self.times.ttl
    }

    /// Makes renewals request at least `ttl` from now on. Returns whether that is longer than before.
    pub(crate) fn raise_ttl(&mut self, ttl: Duration) -> bool {
        // If a lease lasts from the last confirmation to the end of `max_hold`, it does so from a later confirmation
        // too. A longer lease would only make the lock outlive its hold.
        let left = |end: Instant| end.saturating_duration_since(self.times.confirmed);
        let ttl = self.end.map_or(ttl, |end| ttl.min(left(end)));
        // A nested call with a shorter TTL changes nothing (P4).
        let is_longer = ttl > self.times.ttl;
        self.times.ttl = self.times.ttl.max(ttl);
        is_longer
    }

    pub(crate) fn deadline(&self) -> Instant {
        let deadline = self.times.deadline;
        self.end.map_or(deadline, |end| end.min(deadline))
    }

    /// The times that are passed to the next turn of the hold.
    pub(crate) fn times(&self) -> LeaseTimes {
        self.times
    }

    /// The generation before the request that last confirmed it.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether another call graph may continue it. It must have no end of its own, must not be lost, and must
    /// have been confirmed in the present generation.
    pub(crate) fn is_open(&self, generation: u64) -> bool {
        self.end.is_none() && self.lost.is_none() && self.generation == generation
    }

    /// The time at which the lease must be handled in this generation. Usually it is a third of the last confirmed TTL
    /// after the request that confirmed it, whatever TTL the next renewal requests. It is the deadline if the lease
    /// already lasts until the end of `max_hold`. After a disconnect it is soon.
    pub(crate) fn due(&self, generation: u64) -> Instant {
        let due = match self.end {
            Some(end) if end <= self.times.deadline => end,
            _ => self.times.renewal_due,
        };
        if self.generation == generation {
            due
        } else {
            due.min(self.times.confirmed + MIN_VERIFY_INTERVAL)
        }
    }

    /// Makes the next renewal due at the beginning of its part, or this number of parts earlier. `earlier` gets the
    /// number of the part since `epoch`.
    pub(crate) fn align(&mut self, epoch: Instant, earlier: impl FnOnce(u64) -> u64) {
        let renewal_due = self.times.renewal_due;
        let part = nanos(self.times.ttl / RENEWALS_PER_TTL) / PARTS_PER_PERIOD;
        // The short lease after a hand-off would be renewed too early.
        let pause = renewal_due.saturating_duration_since(self.times.confirmed);
        if part == 0 || pause < self.times.ttl / RENEWALS_PER_SHORT_LEASE {
            return;
        }
        let number = nanos(renewal_due.saturating_duration_since(epoch)) / part;
        let number = number.saturating_sub(earlier(number));
        let aligned = after(epoch, Duration::from_nanos(number * part));
        self.times.renewal_due = aligned.min(renewal_due);
    }

    /// Notes that the store has confirmed that the lease lasts `ttl` from a request that was sent at `sent`.
    ///
    /// A confirmation that arrives after the deadline is too late: the lock counted as lost by then. A confirmation of
    /// a request that was sent before the last confirmed one changes nothing.
    pub(crate) fn confirm(&mut self, sent: Instant, ttl: Duration, now: Instant) {
        if self.check_loss(now).is_none() && sent >= self.times.confirmed {
            let confirmed = LeaseTimes::new(sent, ttl, ttl, self.grace);
            self.confirmed_ttl = ttl;
            self.times.confirmed = sent;
            // No time moves back, because a lease is never shortened (P4).
            self.times.renewal_due = self.times.renewal_due.max(confirmed.renewal_due);
            self.times.deadline = self.times.deadline.max(confirmed.deadline);
        }
    }

    /// Notes that a request was confirmed that was sent in this generation.
    pub(crate) fn verify(&mut self, generation: u64) {
        // The reply to an earlier request may come after that to a later one.
        self.generation = self.generation.max(generation);
    }

    /// The reason of the loss at the instant `now`, if the lease was lost.
    pub(crate) fn check_loss(&mut self, now: Instant) -> Option<LostReason> {
        self.lost = self.loss_at(now);
        self.lost
    }

    /// The loss that a check at the instant `now` finds. It is not noted.
    pub(crate) fn loss_at(&self, now: Instant) -> Option<LostReason> {
        match self.end {
            // The first reason counts. What was not lost at its end stays so, whenever the lease expires.
            _ if self.lost.is_some() || self.has_ended => self.lost,
            // This comes first: if the first lease covers `max_hold`, both may end at the same instant.
            Some(end) if now >= end => Some(LostReason::MaxHold),
            _ if now >= self.times.deadline => Some(LostReason::Expired),
            _ => None,
        }
    }

    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Marks the lock as lost. The first reason counts.
    pub(crate) fn lose(&mut self, reason: LostReason) {
        if !self.has_ended {
            self.lost.get_or_insert(reason);
        }
    }

    /// Notes that the release of the hold found that the lock had been lost before.
    pub(crate) fn note_loss_at_release(&mut self, reason: LostReason) {
        self.lost.get_or_insert(reason);
    }

    /// Notes that the hold has ended. From now on the lease may expire without being lost.
    pub(crate) fn end(&mut self, now: Instant) {
        // A deadline that has passed by now is a loss. One that passes later is none.
        self.check_loss(now);
        self.has_ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
