//! The fencing tokens of call graphs that share a hold, one after the other.
//!
//! A token is the server's time at which the lock was taken, in microseconds. Each later call graph has the
//! number after the one before, and no request tells the server of it. So the number must be one that the
//! server's clock has passed: whatever token it gives next is greater.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::FencingToken;
use crate::store::StoreTime;

/// The token of a turn, and what is known of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenSeries {
    /// Of the first turn, from the server.
    first: FencingToken,
    /// How many turns came before this one.
    turns: u32,
    /// The server's clock was at the first token by then. `None` if the token was ahead of the clock.
    since: Option<Instant>,
}

impl TokenSeries {
    /// The token of a lock that was taken at the server's time `at`, as an answer or a message told that
    /// was there at the instant `received`.
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

    /// When it was told that the lock was taken.
    pub(crate) fn since(self) -> Option<Instant> {
        self.since
    }

    /// For how long the lock has gone on without the server.
    pub(crate) fn age(self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.since?))
    }

    /// The token of the next turn, if the server's clock has passed it for certain. One per cent is for
    /// clocks that differ in rate.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        let turns = self.turns.checked_add(1)?;
        let passed = now.checked_duration_since(self.since?)?;
        let micros = u64::from(turns) + 1;
        let least = Duration::from_nanos(micros.saturating_mul(1_010));
        (passed >= least).then_some(Self { turns, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime { micros: 1_000 };

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
