//! The rules without which the protocol would be wrong, each of them broken once.

use crate::{
    config::{Chances, Config},
    properties::{BACKING, DEPTH, EXCLUSION, NO_LOST_WAKE_UP, NO_ORPHAN, PROGRESS, TOKEN_ORDER},
};

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutation {
    /// A release writes no tombstone.
    NoTombstone,
    /// An acquire of the hold that has the lock counts one more.
    AcquireCountsAgain,
    /// The depth goes one up or down, whatever it is and whichever change came before.
    DepthCountsBlindly,
    /// A renewal takes a lock that is free.
    RenewRecreates,
    /// A renewal sets the lease to its TTL, even if it is longer.
    RenewShortens,
    /// A release deletes the lock, whoever has it.
    ReleaseOfAnybody,
    /// A release without a successor tells nobody.
    ReleaseWakesNobody,
    /// A release tells the head of the queue before it knows that the lock moves.
    ToldTooEarly,
    /// A hold that has the lock is given a place in the queue.
    SuccessorStandsTwice,
    /// The place in the queue remains when the lock has moved there.
    PlaceStaysWhenGranted,
    /// A dead place at the head is neither removed nor passed over.
    DeadHeadStays,
    /// The last token is forgotten when a lease runs out.
    TokensStartAgain,
    /// A lease counts from when the answer is read.
    DeadlineFromReceipt,
    /// The lease of a lock that has moved here counts from when the message is read.
    NewsCountsFromReceipt,
    /// A message is believed although an answer is awaited.
    NewsOvertakesAnswer,
    /// Only messages make a waiter ask again.
    HeartbeatNeverAsks,
    /// A successor that was dropped while its release was in flight is not released.
    DroppedSuccessorIsForgotten,
    /// A release that is repeated names whoever is first by then.
    SuccessorIsReplaced,
}

/// What a broken rule breaks, and where that shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) mutation: Mutation,
    pub(crate) promise: &'static str,
    pub(crate) config: Config,
}

const fn breaks(
    mutation: Mutation,
    promise: &'static str,
    (processes, waiters): (u8, u8),
    chances: Chances,
) -> Broken {
    Broken {
        mutation,
        promise,
        config: Config::of(processes, waiters).with(chances),
    }
}

const NONE: Chances = Chances::NONE;

/// Each mutation, the promise that catches it, and the least that has to be there and to go wrong.
pub(crate) const BROKEN: &[Broken] = {
    use Mutation::*;
    &[
        breaks(
            NoTombstone,
            NO_ORPHAN,
            (1, 1),
            Chances {
                timeouts: 1,
                ..NONE
            },
        ),
        breaks(
            AcquireCountsAgain,
            DEPTH,
            (1, 1),
            Chances {
                timeouts: 1,
                ..NONE
            },
        ),
        breaks(
            DepthCountsBlindly,
            DEPTH,
            (1, 1),
            Chances {
                duplicates: 1,
                reentries: 1,
                ..NONE
            },
        ),
        breaks(RenewRecreates, NO_ORPHAN, (1, 1), NONE),
        breaks(
            RenewShortens,
            EXCLUSION,
            (2, 1),
            Chances {
                delays: 2,
                reentries: 1,
                ..NONE
            },
        ),
        breaks(
            ReleaseOfAnybody,
            BACKING,
            (2, 1),
            Chances {
                timeouts: 1,
                ..NONE
            },
        ),
        breaks(ReleaseWakesNobody, NO_LOST_WAKE_UP, (2, 1), NONE),
        breaks(
            ToldTooEarly,
            EXCLUSION,
            (3, 1),
            Chances {
                duplicates: 1,
                ..NONE
            },
        ),
        breaks(
            SuccessorStandsTwice,
            NO_ORPHAN,
            (2, 2),
            Chances { drops: 1, ..NONE },
        ),
        breaks(PlaceStaysWhenGranted, NO_ORPHAN, (2, 1), NONE),
        breaks(
            DeadHeadStays,
            PROGRESS,
            (3, 1),
            Chances { crashes: 1, ..NONE },
        ),
        breaks(
            TokensStartAgain,
            TOKEN_ORDER,
            (2, 1),
            Chances { crashes: 1, ..NONE },
        ),
        breaks(
            DeadlineFromReceipt,
            EXCLUSION,
            (2, 1),
            Chances { delays: 3, ..NONE },
        ),
        breaks(
            NewsCountsFromReceipt,
            EXCLUSION,
            (3, 1),
            Chances { delays: 2, ..NONE },
        ),
        breaks(
            NewsOvertakesAnswer,
            NO_ORPHAN,
            (2, 1),
            Chances { delays: 1, ..NONE },
        ),
        breaks(
            HeartbeatNeverAsks,
            PROGRESS,
            (2, 1),
            Chances {
                lost_news: 1,
                ..NONE
            },
        ),
        breaks(
            DroppedSuccessorIsForgotten,
            NO_ORPHAN,
            (1, 2),
            Chances { drops: 1, ..NONE },
        ),
        breaks(
            SuccessorIsReplaced,
            NO_ORPHAN,
            (1, 2),
            Chances {
                timeouts: 1,
                drops: 1,
                ..NONE
            },
        ),
    ]
};
