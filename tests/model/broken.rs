//! Each rule broken once, and the promise that is violated then.

use super::config::{Chances, Config};
use super::mutation::Mutation;
use super::properties::{
    BACKING, DEPTH, END, EXCLUSION, FAIRNESS, NO_LOST_WAKE_UP, NO_ORPHAN, PERMITS, PROGRESS,
    TOKEN_ORDER,
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
    breaks_in(mutation, promise, Config::of(processes, waiters), chances)
}

const fn breaks_in(
    mutation: Mutation,
    promise: &'static str,
    config: Config,
    chances: Chances,
) -> Broken {
    Broken {
        mutation,
        promise,
        config: config.with(chances),
    }
}

/// Readers in two processes, and a writer in the third.
const TWO_READERS: Config = Config::of(3, 1).reading(&[1, 1, 0]);

/// Two permits, and a process each that wants one.
const TWO_PERMITS: Config = Config::of(3, 1).permits(&[2, 2, 2]);

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
        breaks_in(
            ReadersRenewPlainly,
            BACKING,
            Config::of(1, 1).reading(&[1]),
            NONE,
        ),
        breaks_in(LeaverDoesNotSettle, END, TWO_READERS, NONE),
        breaks_in(ReadersOvertake, FAIRNESS, TWO_READERS, NONE),
        breaks_in(OneBatchIsAdmitted, NO_LOST_WAKE_UP, TWO_READERS, NONE),
        breaks_in(
            LeavingWriterAdmitsNone,
            NO_LOST_WAKE_UP,
            TWO_READERS,
            Chances { drops: 1, ..NONE },
        ),
        breaks_in(GrantWithoutOwnLease, NO_LOST_WAKE_UP, TWO_READERS, NONE),
        breaks_in(LeaverFreesTheLock, BACKING, TWO_READERS, NONE),
        breaks_in(
            DowngradeShortens,
            BACKING,
            Config::of(1, 1),
            Chances {
                reentries: 1,
                downgrades: 1,
                ..NONE
            },
        ),
        breaks_in(PermitIgnoresItsLimit, PERMITS, TWO_PERMITS, NONE),
        breaks_in(LineIgnoresLimits, PERMITS, TWO_PERMITS, NONE),
        breaks_in(
            LimitOfThoseInside,
            PERMITS,
            Config::of(2, 1).permits(&[2, 1]),
            NONE,
        ),
        breaks_in(TokenTakesAPermit, NO_LOST_WAKE_UP, TWO_PERMITS, NONE),
        breaks_in(LeavingPermitAdmitsNone, NO_LOST_WAKE_UP, TWO_PERMITS, NONE),
        breaks_in(
            LeavingWaiterAdmitsNone,
            NO_LOST_WAKE_UP,
            Config::of(3, 1).permits(&[2, 1, 2]),
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
