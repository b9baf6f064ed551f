//! Each rule is broken once, and a promise is violated then.

use super::config::Chance::{
    self, Crashes, Delays, Drops, Duplicates, LostMessages, Reentries, Setbacks, Timeouts,
};
use super::mutation::Mutation::{self, *};
use super::properties::{
    BACKING, DEPTH, END, EXCLUSION, FAIRNESS, NO_LOST_WAKE_UP, NO_ORPHAN, PERMITS, PROGRESS,
    TOKEN_ORDER,
};

/// A mutation, and the promise that detects it.
type Broken = (
    Mutation,
    &'static str,
    &'static [&'static str],
    &'static [Chance],
);

/// Each mutation, the promise that detects it, and the minimum of processes and mishaps that this needs.
pub(crate) const BROKEN: &[Broken] = &[
    (NoTombstone, NO_ORPHAN, &["w"], &[Timeouts(1)]),
    (AcquireCountsAgain, DEPTH, &["w"], &[Timeouts(1)]),
    (
        DepthCountsBlindly,
        DEPTH,
        &["w"],
        &[Duplicates(1), Reentries(1)],
    ),
    (RenewRecreates, NO_ORPHAN, &["w"], &[]),
    (
        RenewShortens,
        EXCLUSION,
        &["w", "w"],
        &[Delays(2), Reentries(1)],
    ),
    (ReleaseOfAny, BACKING, &["w", "w"], &[Timeouts(1)]),
    (ReleaseWakesNone, NO_LOST_WAKE_UP, &["w", "w"], &[]),
    (ToldTooEarly, EXCLUSION, &["w", "w", "w"], &[Duplicates(1)]),
    (PlaceStaysWhenGranted, NO_ORPHAN, &["w", "w"], &[]),
    (DeadHeadStays, PROGRESS, &["w", "w", "w"], &[Crashes(1)]),
    (TokensStartAgain, TOKEN_ORDER, &["w", "w"], &[Crashes(1)]),
    (MovesByTheClock, TOKEN_ORDER, &["w", "w"], &[Setbacks(1)]),
    (NumberStays, NO_ORPHAN, &["w"], &[Reentries(1)]),
    (
        ShortReleaseAlways,
        NO_ORPHAN,
        &["w", "w"],
        &[Delays(1), Timeouts(1), Drops(1)],
    ),
    (DeadlineFromReceipt, EXCLUSION, &["w", "w"], &[Delays(3)]),
    (
        MessageCountsFromReceipt,
        EXCLUSION,
        &["w", "w", "w"],
        &[Delays(2)],
    ),
    (MessageOvertakesAnswer, NO_ORPHAN, &["w", "w"], &[Delays(1)]),
    (
        HeartbeatNeverAsks,
        PROGRESS,
        &["w", "w"],
        &[LostMessages(1)],
    ),
    (DroppedWaiterIsForgotten, NO_ORPHAN, &["w"], &[Drops(1)]),
    (TurnKeepsItsToken, TOKEN_ORDER, &["ww"], &[]),
    (TurnsHaveNoEnd, FAIRNESS, &["www", "w"], &[]),
    (ReadersRenewPlainly, BACKING, &["r"], &[]),
    (LeaverDoesNotSettle, END, &["r", "r", "w"], &[]),
    (ReadersOvertake, FAIRNESS, &["r", "r", "w"], &[]),
    (OneBatchIsAdmitted, NO_LOST_WAKE_UP, &["r", "r", "w"], &[]),
    (GrantWithoutOwnLease, NO_LOST_WAKE_UP, &["r", "r", "w"], &[]),
    (LeaverFreesTheLock, BACKING, &["r", "r", "w"], &[]),
    (PermitIgnoresItsLimit, PERMITS, &["2", "2", "2"], &[]),
    (LineIgnoresLimits, PERMITS, &["2", "2", "2"], &[]),
    (LimitOfThoseInside, PERMITS, &["2", "1"], &[]),
    (TokenTakesAPermit, NO_LOST_WAKE_UP, &["2", "2", "2"], &[]),
    (
        LeavingPermitAdmitsNone,
        NO_LOST_WAKE_UP,
        &["2", "2", "2"],
        &[],
    ),
    (
        LeavingWaiterAdmitsNone,
        NO_LOST_WAKE_UP,
        &["2", "1", "2"],
        &[Drops(1)],
    ),
];
