//! The times of a lease, both in the store, on the clock of the server, and here, on a monotonic clock. The deadline is
//! the instant until which the lock is certain to be held (P5). And what is known here of the server's clock: which tokens
//! it has passed, and when the lease of a message began.
//!
//! A lease counts from the instant *before* the request was sent that acquired or renewed it, less a margin for clocks
//! that run at different rates. So it expires here before it expires in the store, however long the request and its
//! response were on their way. See Gray and Cheriton, [*Leases*](https://doi.org/10.1145/74850.74870), 1989.

use std::time::Duration;

use tokio::time::Instant;

use super::id::FencingToken;
use super::timer::after;

/// A time on the clock of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreTime {
    pub(crate) micros: u64,
}

impl StoreTime {
    /// The time since an earlier time. `None` if the other time is later, which happens only if the clock was set back.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.micros
            .checked_sub(earlier.micros)
            .map(Duration::from_micros)
    }

    /// The time that is `span` later.
    pub(crate) fn after(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let micros = self.micros.saturating_add(span);
        Self { micros }
    }
}

/// A renewal is due after this part of the TTL, so that two more fit into the lease if it fails.
pub(crate) const RENEWALS_PER_TTL: u32 = 3;

/// A lease that is shorter than its TTL, after a hand-off, is renewed after this part of it. A short section ends before
/// that.
pub(crate) const RENEWALS_PER_SHORT_LEASE: u32 = 4;

// Otherwise a full lease would be taken for a short one, and its renewals would never meet those of others.
const _: () = assert!(RENEWALS_PER_TTL < RENEWALS_PER_SHORT_LEASE);

/// The minimum margin. The margin of a longer lease is 1 % of it.
const MIN_MARGIN: Duration = Duration::from_millis(5);

/// The deadline of a lease that was requested at `sent`. The lease lasts longer in the store than here, at least by the
/// grace.
#[inline]
pub(crate) fn deadline(sent: Instant, lease: Duration, grace: Duration) -> Instant {
    // Not in addition: the margin for the clocks is a part of the grace.
    let margin = MIN_MARGIN.max(lease / 100).max(grace);
    after(sent, lease.saturating_sub(margin))
}

/// The times of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    /// The length that renewals request.
    pub(crate) ttl: Duration,
    /// The time at which the request was sent that last confirmed the lease.
    pub(crate) confirmed: Instant,
    pub(crate) renewal_due: Instant,
    pub(crate) deadline: Instant,
}

impl LeaseTimes {
    /// A lease of this length that counts from `sent`.
    #[inline]
    pub(crate) fn new(sent: Instant, length: Duration, ttl: Duration, grace: Duration) -> Self {
        // A lock that has moved here has a short lease. The grace is no part of what can be used of it.
        let pause = if length < ttl {
            length.saturating_sub(grace) / RENEWALS_PER_SHORT_LEASE
        } else {
            ttl / RENEWALS_PER_TTL
        };
        Self {
            ttl,
            confirmed: sent,
            renewal_due: after(sent, pause),
            deadline: deadline(sent, length, grace),
        }
    }
}

/// The token of a turn, and what is known of the server's clock.
///
/// A token is the server's time at which the lock was taken, in microseconds. Each later call graph has the next
/// number, and no request informs the server of it. So it must be a number that the server's clock has passed. Then any
/// token that the server gives next is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenSeries {
    /// The token of the first turn, from the server.
    first: FencingToken,
    turns: u32,
    /// The instant by which the server's clock had reached the first token. `None` if the token was ahead of the clock.
    since: Option<Instant>,
}

impl TokenSeries {
    /// The tokens of a lock that was taken at the server's time `at`. This time is from an answer or a message that had
    /// arrived at the instant `received`.
    pub(crate) fn new(first: FencingToken, at: StoreTime, received: Instant) -> Self {
        Self {
            first,
            turns: 0,
            since: (first.0 <= at.micros).then_some(received),
        }
    }

    pub(crate) fn token(self) -> FencingToken {
        FencingToken(self.first.0.saturating_add(u64::from(self.turns)))
    }

    /// The instant by which the lock had been taken.
    pub(crate) fn since(self) -> Option<Instant> {
        self.since
    }

    /// The time for which the lock has been handed off without the server.
    pub(crate) fn age(self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.since?))
    }

    /// Returns the token of the next turn, if the server's clock has certainly passed it. The margin of 1 % allows for
    /// clocks that differ in rate.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        let turns = self.turns.checked_add(1)?;
        let passed = now.checked_duration_since(self.since?)?;
        // The clock had reached the first token by `since`. It has passed the token of a turn one microsecond after
        // it has reached that.
        let micros = u64::from(turns) + 1;
        let least = Duration::from_nanos(micros.saturating_mul(1_010));
        (passed >= least).then_some(Self { turns, ..self })
    }
}

/// What is known of the server's clock: the server's time at an instant of the local clock, or later.
///
/// A lease is counted from before a request of one's own (P5). A waiter that is granted the lock by a message has not
/// just sent a request. But its last answer contained the server's time, and the waiter knows when it sent that
/// request. So for each local instant it knows the latest time that the server's clock can show. It counts the lease
/// from the moment at which the lock moved, however long the message took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct StoreClock {
    /// The instant before the request was sent that the store answered at its time `at`.
    pub(crate) sent: Instant,
    pub(crate) at: StoreTime,
    /// The generation at `sent`.
    pub(crate) generation: u64,
}

impl StoreClock {
    /// Returns when the lease of a lock begins that has moved at this time of the server, as a message says in this
    /// generation. Returns `None` if only the store can tell. This is so after a new connection, if the clock of the
    /// store was stepped, and if the lease may have expired.
    pub(crate) fn lease_start(
        self,
        at: StoreTime,
        lease: Duration,
        grace: Duration,
        generation: u64,
        now: Instant,
    ) -> Option<Instant> {
        // If the clock of the server was set back, the move seems to come before the answer.
        let passed = at.since(self.at)?;
        let start = self.sent.checked_add(passed)?;
        // The message cannot be older than the move. One per cent is for clocks that differ in rate.
        let is_sound = self.generation == generation && start <= now;
        let start = start.checked_sub(passed / 100)?;
        (is_sound && now < deadline(start, lease, grace)).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: Duration = Duration::ZERO;

    #[tokio::test(start_paused = true)]
    async fn the_deadline_lies_before_the_end_of_the_lease() {
        let sent = Instant::now();
        assert_eq!(
            deadline(sent, 10 * SECOND, NONE),
            sent + Duration::from_millis(9900)
        );
        assert_eq!(
            deadline(sent, SECOND / 10, NONE),
            sent + Duration::from_millis(95)
        );
        assert_eq!(deadline(sent, Duration::ZERO, NONE), sent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_grace_is_the_margin_if_it_is_longer() {
        let sent = Instant::now();
        assert_eq!(deadline(sent, 30 * SECOND, 4 * SECOND), sent + 26 * SECOND);
        let drift = Duration::from_micros(900);
        assert_eq!(deadline(sent, SECOND, drift), deadline(sent, SECOND, NONE));
        // A short lease after a hand-off is renewed before its deadline.
        let times = LeaseTimes::new(sent, 6 * SECOND, 30 * SECOND, 4 * SECOND);
        assert_eq!(times.renewal_due, sent + SECOND / 2);
        assert_eq!(times.deadline, sent + 2 * SECOND);
    }

    const GENERATION: u64 = 7;
    const NOW: StoreTime = StoreTime { micros: 1_000 };

    fn time(since: Duration) -> StoreTime {
        let micros = 1_700_000_000_000_000 + u64::try_from(since.as_micros()).unwrap_or(0);
        StoreTime { micros }
    }

    /// The beginning of a lease of two seconds, if the lock has moved this long after the answer that the clock is from.
    fn lease_start(
        clock: StoreClock,
        moved: Duration,
        generation: u64,
        now: Instant,
    ) -> Option<Instant> {
        clock.lease_start(time(moved), 2 * SECOND, NONE, generation, now)
    }

    fn clock(sent: Instant) -> StoreClock {
        let at = time(Duration::ZERO);
        StoreClock {
            sent,
            at,
            generation: GENERATION,
        }
    }

    #[test]
    fn a_lease_counts_from_the_move_and_not_from_the_message() {
        let sent = Instant::now();
        let start = |now| lease_start(clock(sent), 3 * SECOND, GENERATION, now);
        let (early, late) = (start(sent + 3 * SECOND), start(sent + 4 * SECOND));
        assert_eq!(early, late);
        assert_eq!(early, Some(sent + Duration::from_millis(2_970)));
    }

    #[test]
    fn messages_that_come_after_the_lease_are_of_no_use() {
        let sent = Instant::now();
        let start = lease_start(clock(sent), SECOND, GENERATION, sent + 3 * SECOND);
        assert_eq!(start, None);
    }

    #[test]
    fn a_clock_that_was_stepped_is_not_believed() {
        let sent = Instant::now();
        // Forwards: the lock seems to have moved in the future.
        let ahead = lease_start(clock(sent), 60 * SECOND, GENERATION, sent + SECOND);
        assert_eq!(ahead, None);
        // Backwards: it seems to have moved before the request.
        let later = StoreClock {
            at: time(SECOND),
            ..clock(sent)
        };
        assert_eq!(lease_start(later, Duration::ZERO, GENERATION, sent), None);
    }

    #[test]
    fn times_of_two_connections_are_not_compared() {
        let sent = Instant::now();
        let start = lease_start(clock(sent), SECOND, GENERATION + 1, sent + SECOND);
        assert_eq!(start, None);
    }

    fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    #[test]
    fn each_token_needs_a_microsecond_and_one_more() {
        let received = Instant::now();
        let first = TokenSeries::new(FencingToken(1_000), NOW, received);
        assert_eq!(first.next(received + nanos(2_019)), None);
        let second = first.next(received + nanos(2_020));
        assert_eq!(second.map(TokenSeries::token), Some(FencingToken(1_001)));
        let third = |after| second?.next(received + nanos(after));
        assert_eq!(third(3_029), None);
        assert_eq!(
            third(3_030).map(TokenSeries::token),
            Some(FencingToken(1_002))
        );
    }

    #[test]
    fn a_token_ahead_of_the_clock_is_the_last() {
        let received = Instant::now();
        let ahead = TokenSeries::new(FencingToken(1_001), NOW, received);
        assert_eq!(ahead.token(), FencingToken(1_001));
        assert_eq!(ahead.next(received + Duration::from_secs(3_600)), None);
    }

    #[test]
    fn an_instant_before_the_receipt_gives_no_token() {
        let received = Instant::now() + nanos(1);
        let first = TokenSeries::new(FencingToken(1_000), NOW, received);
        assert_eq!(first.next(received - nanos(1)), None);
    }
}
