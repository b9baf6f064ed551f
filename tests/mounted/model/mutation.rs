//! The rules without which the protocol would be wrong.

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutation {
    /// A release writes no tombstone.
    NoTombstone,
    /// An acquire of the hold that has the lock counts one more.
    AcquireCountsAgain,
    /// The depth changes by one, whatever it is and whichever change came before.
    DepthCountsBlindly,
    /// A renewal takes a lock that is free.
    RenewRecreates,
    /// A renewal sets the lease to its TTL, even if it is longer.
    RenewShortens,
    /// A release deletes the lock, even that of another hold.
    ReleaseOfAny,
    /// A release notifies no process.
    ReleaseWakesNone,
    /// A release notifies the head of the queue before it knows that the lock moves.
    ToldTooEarly,
    /// The place in the queue remains when the lock has moved there.
    PlaceStaysWhenGranted,
    /// A dead place at the head is neither removed nor passed over.
    DeadHeadStays,
    /// The last token is forgotten when a lease expires.
    TokensStartAgain,
    /// A lease counts from the instant at which the answer is read.
    DeadlineFromReceipt,
    /// The lease of a lock that has moved here counts from the instant at which the message is read.
    MessageCountsFromReceipt,
    /// A message is believed although an answer is pending.
    MessageOvertakesAnswer,
    /// Only messages make a waiter repeat its request.
    HeartbeatNeverAsks,
    /// A waiter that was dropped while its request was in flight is not released.
    DroppedWaiterIsForgotten,
    /// A lock that passes on in memory keeps its token.
    TurnKeepsItsToken,
    /// A lock passes on in memory although its turns are used up and another process may wait.
    TurnsHaveNoEnd,
    /// A lock that moves has the time as its token, whatever the stored one is.
    MovesByTheClock,
    /// The number of the last depth change remains when its hold is released.
    NumberStays,
    /// Every release is short, even if it is repeated or the lock is lost.
    ShortReleaseAlways,
    /// Readers renew the lock, and not their own leases.
    ReadersRenewPlainly,
    /// A reader that leaves does not set the expiry of the lock back to that of those inside.
    LeaverDoesNotSettle,
    /// A reader enters a shared lock past a writer that waits.
    ReadersOvertake,
    /// Only the first readers in the line are let in, and not those behind them.
    OneBatchIsAdmitted,
    /// Readers who are let in have no lease of their own.
    GrantWithoutOwnLease,
    /// A reader that leaves frees the lock, whichever others are in it.
    LeaverFreesTheLock,
    /// A permit enters a shared lock whatever its limit is.
    PermitIgnoresItsLimit,
    /// Permits that wait in the line are let in whatever their limits are.
    LineIgnoresLimits,
    /// The greatest limit among those inside counts, and not that of the permit that sends the request.
    LimitOfThoseInside,
    /// The token counts as a holder when the script checks whether a permit fits.
    TokenTakesAPermit,
    /// A permit that leaves a shared lock lets in no permit that waits.
    LeavingPermitAdmitsNone,
    /// A permit that leaves the line lets in no permit behind it.
    LeavingWaiterAdmitsNone,
}
