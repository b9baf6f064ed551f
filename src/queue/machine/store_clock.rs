//! What a process knows of the server's clock: which tokens it has passed, and when the lease of a message began.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::FencingToken;
use crate::base::lease_times::{Grace, StoreTime, deadline};
use crate::store::HandoffMessage;

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
pub(super) struct StoreClock {
    /// The instant before the request was sent that the store answered at its time `at`.
    pub(super) sent: Instant,
    pub(super) at: StoreTime,
    /// The generation at `sent`.
    pub(super) generation: u64,
}

impl StoreClock {
    /// Returns when the lease of the lock that has moved begins. Returns `None` if only the store can tell. This is so
    /// after a new connection, if the clock of the store was stepped, and if the lease may have expired.
    pub(super) fn lease_start(
        self,
        moved: &HandoffMessage,
        grace: Grace,
        generation: u64,
        now: Instant,
    ) -> Option<Instant> {
        // If the clock of the server was set back, the move seems to come before the answer.
        let passed = moved.at.since(self.at)?;
        let start = self.sent.checked_add(passed)?;
        // The message cannot be older than the move. One per cent is for clocks that differ in rate.
        let is_sound = self.generation == generation && start <= now;
        let start = start.checked_sub(passed / 100)?;
        (is_sound && now < deadline(start, moved.lease, grace)).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Owner;

    const SECOND: Duration = Duration::from_secs(1);
    const GENERATION: u64 = 7;
    const NOW: StoreTime = StoreTime { micros: 1_000 };

    fn time(since: Duration) -> StoreTime {
        let micros = 1_700_000_000_000_000 + u64::try_from(since.as_micros()).unwrap_or(0);
        StoreTime { micros }
    }

    /// The beginning of the lease if the lock moved this long after the last answer, for a lease of two seconds.
    fn moved(after: Duration) -> HandoffMessage {
        HandoffMessage {
            key: "order:42".to_owned(),
            holds: vec![Owner::new().next_hold()],
            token: FencingToken(1),
            at: time(after),
            lease: 2 * SECOND,
        }
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
        let moved = moved(3 * SECOND);
        let early = clock(sent).lease_start(&moved, Grace::NONE, GENERATION, sent + 3 * SECOND);
        let late = clock(sent).lease_start(&moved, Grace::NONE, GENERATION, sent + 4 * SECOND);
        assert_eq!(early, late);
        assert_eq!(early, Some(sent + Duration::from_millis(2_970)));
    }

    #[test]
    fn messages_that_come_after_the_lease_are_of_no_use() {
        let sent = Instant::now();
        let start =
            clock(sent).lease_start(&moved(SECOND), Grace::NONE, GENERATION, sent + 3 * SECOND);
        assert_eq!(start, None);
    }

    #[test]
    fn a_clock_that_was_stepped_is_not_believed() {
        let sent = Instant::now();
        // Forwards: the lock seems to have moved in the future.
        let ahead =
            clock(sent).lease_start(&moved(60 * SECOND), Grace::NONE, GENERATION, sent + SECOND);
        assert_eq!(ahead, None);
        // Backwards: it seems to have moved before the request.
        let later = StoreClock {
            at: time(SECOND),
            ..clock(sent)
        };
        assert_eq!(
            later.lease_start(&moved(Duration::ZERO), Grace::NONE, GENERATION, sent),
            None
        );
    }

    #[test]
    fn times_of_two_connections_are_not_compared() {
        let sent = Instant::now();
        let start =
            clock(sent).lease_start(&moved(SECOND), Grace::NONE, GENERATION + 1, sent + SECOND);
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
