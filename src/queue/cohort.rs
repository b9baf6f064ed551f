//! A lock that was won, on its way to the caller that enters it: from the store, or from the call graph that
//! had it before.
//!
//! A cohort is a hold that several call graphs have, one after the other (`HandOff::InProcess`). It goes from
//! each of them to the next as a value: nothing is shared between them, and nothing renews it on the way.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    step::{Grant, Release},
    tokens::TokenSeries,
};
use crate::base::{deadline::deadline, id::HoldId, metrics::Via, mode::Mode};

/// A lock that was won and not yet entered. A grant of the store is a cohort at its first turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cohort {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) tokens: TokenSeries,
    pub(crate) lease: Leased,
    pub(crate) depth: Stored,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether it was not found lost.
    pub(crate) is_open: bool,
    /// The count of disconnects before the request that last confirmed the hold; `None` if that was the
    /// request which won it.
    pub(crate) disconnects: Option<u64>,
    /// How it came to the caller that enters it.
    pub(crate) via: Via,
}

/// For how long a lock that was won is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leased {
    /// What renewals ask for.
    pub(crate) ttl: Duration,
    /// When the request was sent that last confirmed it, and the length that it confirmed.
    pub(crate) confirmed: Instant,
    pub(crate) length: Duration,
    pub(crate) renewal_due: Instant,
    pub(crate) deadline: Instant,
}

/// What is known of the depth in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// `None` if a change was not answered.
    pub(crate) depth: Option<u32>,
    /// The number of the last change.
    pub(crate) seq: u64,
}

impl Leased {
    /// A lease that counts from `sent`. A renewal is due after a third of the TTL, and after a quarter of the
    /// short lease of a lock that has moved here, which a short section does not reach.
    pub(crate) fn new(sent: Instant, lease: Duration, ttl: Duration) -> Self {
        let pause = if lease < ttl { lease / 4 } else { ttl / 3 };
        Self {
            ttl,
            confirmed: sent,
            length: lease,
            renewal_due: sent + pause,
            deadline: deadline(sent, lease),
        }
    }
}

impl From<Grant> for Cohort {
    fn from(grant: Grant) -> Self {
        Self {
            hold: grant.hold,
            mode: grant.mode,
            tokens: grant.tokens,
            lease: Leased::new(grant.sent, grant.lease, grant.ttl),
            depth: Stored {
                depth: Some(1),
                seq: 0,
            },
            unanswered: grant.unanswered,
            is_open: true,
            disconnects: None,
            via: grant.via,
        }
    }
}

impl Cohort {
    /// What the next turn is entered with. `None` if there is no token for it yet, and if a renewal is due: then
    /// the lock goes through the store, which gives the next one a whole lease. So turns that are shorter than a
    /// renewal do not keep it from being renewed.
    pub(crate) fn next(self, now: Instant) -> Option<Self> {
        let tokens = self.tokens.next(now)?;
        (now < self.lease.renewal_due).then_some(Self { tokens, ..self })
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
            tombstone: self.unanswered,
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
impl Cohort {
    /// A lock that the store gave at its time 1, counted from `sent`.
    pub(crate) fn won(hold: HoldId, sent: Instant, lease: Duration, ttl: Duration) -> Self {
        use crate::{base::id::FencingToken, store::StoreTime};
        let grant = Grant {
            hold,
            mode: Mode::Exclusive,
            tokens: TokenSeries::new(FencingToken(1), StoreTime { micros: 1 }, sent),
            sent,
            lease,
            ttl,
            unanswered: false,
            is_contended: false,
            via: Via::Request,
        };
        grant.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::id::{FencingToken, Owner},
        store::StoreTime,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn won(sent: Instant, lease: Duration) -> Cohort {
        Cohort {
            tokens: TokenSeries::new(FencingToken(7), StoreTime { micros: 7 }, sent),
            unanswered: true,
            ..Cohort::won(Owner::new().next_hold(), sent, lease, 30 * SECOND)
        }
    }

    #[test]
    fn each_turn_has_the_next_token_and_the_hold_stays() {
        let now = Instant::now();
        let first = won(now, 30 * SECOND);
        assert_eq!(first.next(now), None);
        let second = first.next(now + SECOND);
        let third = second.and_then(|second| second.next(now + SECOND));
        let token = |turn: Option<Cohort>| turn.map(|turn| turn.tokens.token().0);
        let tokens = [Some(first), second, third].map(token);
        assert_eq!(tokens, [Some(7), Some(8), Some(9)]);
        let same = |turn: Cohort| (turn.release(), turn.lease, turn.depth);
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
