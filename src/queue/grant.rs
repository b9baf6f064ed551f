//! A lock that was won, on its way to the caller that enters it: from the store, or from the call graph that held it
//! before.
//!
//! With `HandOff::InProcess` several call graphs have one hold, one after the other. Each gives it to the next as a grant:
//! nothing is shared between them, and nothing renews the hold on the way.

#[cfg(test)]
use std::time::Duration;

use tokio::time::Instant;

use super::release::Release;
use super::tokens::TokenSeries;
use crate::base::id::HoldId;
use crate::base::metrics::Via;
use crate::base::option_types::Mode;
use crate::base::time::LeaseTimes;

/// A lock that was won and not yet entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) tokens: TokenSeries,
    pub(crate) lease: LeaseTimes,
    pub(crate) depth: StoredDepth,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether it was not found lost.
    pub(crate) is_open: bool,
    /// Whether another process may wait for the lock.
    pub(crate) is_contended: bool,
    /// The count of disconnects before the request that last confirmed the hold.
    pub(crate) disconnects: u64,
    /// How it came to the caller that enters it.
    pub(crate) via: Via,
}

/// What is known of the depth in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredDepth {
    /// `None` if a change was not answered.
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
    /// What the next turn is entered with. `None` if there is no token for it yet, and if a renewal is due: then
    /// the lock goes through the store, which gives the next one a whole lease. So turns that are shorter than a
    /// renewal do not keep it from being renewed.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        let tokens = self.tokens.next(now)?;
        (now < self.lease.renewal_due).then_some(Self { tokens, ..self })
    }

    /// Counts from the disconnects before its request, unless it was handed on in memory and knows an earlier request.
    pub(super) fn requested_after(&mut self, disconnects: u64) {
        if self.via != Via::Memory {
            self.disconnects = disconnects;
        }
    }

    /// Whether its lease goes on. It may have ended while the caller was not polled.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        now < self.lease.deadline
    }

    /// The end of the hold.
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
            min_hold: None,
            gives_way: false,
        }
    }
}

#[cfg(test)]
impl Grant {
    /// A lock that the store gave at its time 1, counted from `sent`.
    pub(crate) fn won(hold: HoldId, sent: Instant, length: Duration, ttl: Duration) -> Self {
        use crate::base::id::FencingToken;
        use crate::store::StoreTime;
        Self {
            hold,
            mode: Mode::Exclusive,
            tokens: TokenSeries::new(FencingToken(1), StoreTime { micros: 1 }, sent),
            lease: LeaseTimes::new(sent, length, ttl),
            depth: StoredDepth::FIRST,
            unanswered: false,
            is_open: true,
            is_contended: false,
            disconnects: 0,
            via: Via::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{FencingToken, Owner};
    use crate::store::StoreTime;

    const SECOND: Duration = Duration::from_secs(1);

    fn won(sent: Instant, lease: Duration) -> Grant {
        Grant {
            tokens: TokenSeries::new(FencingToken(7), StoreTime { micros: 7 }, sent),
            unanswered: true,
            ..Grant::won(Owner::new().next_hold(), sent, lease, 30 * SECOND)
        }
    }

    #[test]
    fn each_turn_has_the_next_token_and_the_hold_stays() {
        let now = Instant::now();
        let first = won(now, 30 * SECOND);
        assert_eq!(first.next(now), None);
        let second = first.next(now + SECOND);
        let third = second.and_then(|second| second.next(now + SECOND));
        let token = |turn: Option<Grant>| turn.map(|turn| turn.tokens.token().0);
        let tokens = [Some(first), second, third].map(token);
        assert_eq!(tokens, [Some(7), Some(8), Some(9)]);
        let same = |turn: Grant| (turn.release(), turn.lease, turn.depth);
        assert_eq!(third.map(same), Some(same(first)));
    }

    #[test]
    fn a_hold_whose_renewal_is_due_is_not_handed_on() {
        let now = Instant::now();
        for (lease, pause) in [(30 * SECOND, 10 * SECOND), (2 * SECOND, SECOND / 2)] {
            let turn = won(now, lease);
            let early = now + pause - SECOND / 1_000;
            assert!(turn.next(early).is_some(), "{lease:?}");
            assert!(turn.next(now + pause).is_none(), "{lease:?}");
        }
    }
}
