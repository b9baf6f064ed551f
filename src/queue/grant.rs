//! A lock that was acquired, on its way to the caller that enters it. It comes from the store, or from the call graph
//! that held it before. The file also has its fencing tokens, and its end.
//!
//! Several call graphs of a process have one hold, one after the other. Each passes it to the next as a grant. They
//! share nothing, and nothing renews the hold on the way.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::{FencingToken, HoldId};
use crate::base::metrics::HandoffPath;
use crate::base::options::Mode;
use crate::base::time::LeaseTimes;
use crate::store::{End, Leftovers, StoreTime, TOMBSTONE_LIFE};

/// A lock that was acquired and is not entered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) tokens: TokenSeries,
    pub(crate) lease: LeaseTimes,
    pub(crate) depth: StoredDepth,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether the hold was not found lost.
    pub(crate) is_open: bool,
    /// Whether another process may wait for the lock.
    pub(crate) is_contended: bool,
    /// The generation before the request that last confirmed the hold.
    pub(crate) generation: u64,
    /// The way in which the lock came to the caller that enters it.
    pub(crate) via: HandoffPath,
}

/// The known depth in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredDepth {
    /// The depth; `None` if a change was not answered.
    pub(crate) depth: Option<u32>,
    /// The number of the last change.
    pub(crate) seq: u64,
}

impl StoredDepth {
    /// The depth of a hold that the store has just granted.
    pub(crate) const FIRST: Self = Self {
        depth: Some(1),
        seq: 0,
    };
}

impl Grant {
    /// Returns the grant with which the next turn is entered. Returns `None` if there is no token for it yet, or if a
    /// renewal is due. Then the lock goes through the store, which gives the next holder a whole lease. So turns that
    /// are shorter than a renewal cannot prevent it from being renewed.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        let tokens = self.tokens.next(now)?;
        (now < self.lease.renewal_due).then_some(Self { tokens, ..self })
    }

    /// Sets the generation before the request. A lock that was handed off in memory keeps its earlier one.
    pub(super) fn requested_after(&mut self, generation: u64) {
        if self.via != HandoffPath::Memory {
            self.generation = generation;
        }
    }

    /// Returns whether the lease is still valid. It may have expired while the caller was not polled.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        now < self.lease.deadline
    }

    /// Returns the end of the hold.
    pub(crate) fn release(&self) -> Release {
        Release {
            hold: self.hold,
            mode: self.mode,
            unanswered: self.unanswered,
            nested: self.depth.seq > 0,
            open: self.is_open,
            deadline: self.lease.deadline,
            ttl: self.lease.ttl,
            since: self.tokens.since(),
            with_others: false,
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
    /// The number of turns before this one.
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
        let micros = u64::from(turns) + 1;
        let least = Duration::from_nanos(micros.saturating_mul(1_010));
        (passed >= least).then_some(Self { turns, ..self })
    }
}

/// The end of a hold, with what is known of the hold when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether its depth may have changed in the store.
    pub(crate) nested: bool,
    /// Whether the hold was not found lost.
    pub(crate) open: bool,
    /// The instant until which the lease certainly lasts.
    pub(crate) deadline: Instant,
    /// The time for which the lock may stay held in the store after the last request about it.
    pub(crate) ttl: Duration,
    /// The instant since which the hold has had the lock, if that is known.
    pub(crate) since: Option<Instant>,
    /// Whether other holds end with it.
    pub(crate) with_others: bool,
}

impl Release {
    /// The time for which the release is repeated. A tombstone must exist before an unanswered acquire can arrive late.
    pub(super) fn patience(&self) -> Duration {
        if self.unanswered {
            self.ttl.max(TOMBSTONE_LIFE)
        } else {
            self.ttl
        }
    }

    /// Returns how the hold ends, if its first release is sent now.
    pub(super) fn end(&self, now: Instant) -> End {
        let leftovers = Leftovers {
            unanswered: self.unanswered,
            nested: self.nested,
        };
        // The acquire or the grant has removed the place in the queue, and none returns while the lease lasts.
        let may_wait = !self.open || now >= self.deadline;
        if may_wait || leftovers != Leftovers::default() {
            End::Full(leftovers)
        } else {
            End::Short
        }
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
