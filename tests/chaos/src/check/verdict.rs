//! What the checks have found, and what they look for.

use crate::history::History;

/// What the checks have found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// Pairs of sections that met, and pairs out of order, where data had been taken.
    pub(crate) excused: usize,
    /// As many of them as no fault excuses that takes data away for certain.
    pub(crate) excused_by_failover: usize,
    /// Entries that were lost before their bodies began.
    pub(crate) stillborn: usize,
    /// How many permits of one semaphore were out at a time at most; those that lost data excuses do not count.
    pub(crate) most_permits: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Two sections under valid leases at one time, and not two readers (P1).
    Overlap,
    /// More holders under valid leases at one time than a semaphore has permits.
    TooMany,
    /// One token given twice, and not to readers who share the lock (P11).
    TokenTwice,
    /// A later entry with a smaller token (P11).
    TokenOrder,
    /// A write or a read with a token below one that had written before was accepted, or committed.
    StaleWrite,
    /// A write or a read under a valid lease was refused, so a newer holder had written (P1, P11).
    ValidRefused,
    /// A number in the register that is not the number of its transactions.
    LostUpdate,
    /// Fewer transactions in the register than were acknowledged, or more than were sent.
    Commits,
    /// The register has not refused any stale token, although there were many.
    NoneRefused,
    /// A lock that had been taken out of the server counted as held for longer than a lease (P5, P6).
    NeverTold,
    /// A lock was gone although nothing took it.
    GoneWithoutCause,
    /// A hold that had ended and gone stood in the lock again (P8).
    Returned,
    /// A depth in the store that is not the number of entries (P3).
    Depth,
    /// A body that had finished under a valid lease, and an error all the same (P13).
    ResultMasked,
    /// An error that no fault explains.
    Unexpected,
    /// A request that waited far longer than it was to.
    Overstayed,
    /// No worker entered for long although one waited and there was no fault (P9).
    Stall,
    /// A worker that did not come to its own end.
    Worker,
    /// Keys that stayed in the store (P7).
    Leftover,
}

impl Verdict {
    /// Two sections that may meet, since data was taken between these two instants.
    pub(super) fn excuse(&mut self, history: &History, key: &str, from: u64, to: u64) {
        self.excused += 1;
        if !history.taken_away(key, from, to) {
            self.excused_by_failover += 1;
        }
    }

    pub(crate) fn add(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }
}
