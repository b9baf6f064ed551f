//! Each rule broken once, and the promise that is violated then.

use super::{
    config::{Chances, Config},
    mutation::Mutation,
    properties::{BACKING, DEPTH, EXCLUSION, NO_LOST_WAKE_UP, NO_ORPHAN, PROGRESS, TOKEN_ORDER},
};

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
            ReleaseOfAny,
            BACKING,
            (2, 1),
            Chances {
                timeouts: 1,
                ..NONE
            },
        ),
        breaks(ReleaseWakesNone, NO_LOST_WAKE_UP, (2, 1), NONE),
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
            (1, 2),
            Chances {
                delays: 1,
                timeouts: 2,
                drops: 1,
                ..NONE
            },
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
            MovesByTheClock,
            TOKEN_ORDER,
            (2, 1),
            Chances {
                setbacks: 1,
                ..NONE
            },
        ),
        breaks(
            NumberStays,
            NO_ORPHAN,
            (1, 1),
            Chances {
                reentries: 1,
                ..NONE
            },
        ),
        breaks(
            ShortReleaseAlways,
            NO_ORPHAN,
            (2, 1),
            Chances {
                delays: 1,
                timeouts: 1,
                drops: 1,
                ..NONE
            },
        ),
        breaks(
            DeadlineFromReceipt,
            EXCLUSION,
            (2, 1),
            Chances { delays: 3, ..NONE },
        ),
        breaks(
            MessageCountsFromReceipt,
            EXCLUSION,
            (3, 1),
            Chances { delays: 2, ..NONE },
        ),
        breaks(
            MessageOvertakesAnswer,
            NO_ORPHAN,
            (2, 1),
            Chances { delays: 1, ..NONE },
        ),
        breaks(
            HeartbeatNeverAsks,
            PROGRESS,
            (2, 1),
            Chances {
                lost_messages: 1,
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
