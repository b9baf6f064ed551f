//! The findings of the checks, and what they search for.

use crate::history::History;

/// The findings of the checks.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// The pairs of overlapping sections, and the pairs out of order, after data had been taken away.
    pub(crate) excused: usize,
    /// The number of them that no fault excuses that certainly takes data away.
    pub(crate) excused_by_failover: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Two sections under valid leases at the same time, which are not both readers (P1).
    Overlap,
    /// More holders under valid leases at the same time than a semaphore has permits.
    TooMany,
    /// One token given twice, not to readers that share the lock (P11).
    TokenTwice,
    /// A later entry with a smaller token (P11).
    TokenOrder,
    /// A lock that had been taken out of the server counted as held for longer than a lease (P5, P6).
    NeverTold,
    /// A lock was gone although no fault took it away.
    GoneWithoutCause,
    /// A hold that had ended and gone was in the lock again (P8).
    Returned,
    /// A depth in the store that is not the number of entries (P3).
    Depth,
    /// A body that had finished under a valid lease, but its caller got an error (P13).
    ResultMasked,
    /// An error that no fault explains.
    Unexpected,
    /// A request that waited much longer than its limit.
    Overstayed,
    /// No worker entered for a long time although one waited and there was no fault (P9).
    Stall,
    /// A worker that did not end by itself.
    Worker,
    /// Keys that remained in the store (P7).
    Leftover,
}

impl Verdict {
    /// Two sections that may overlap, because data was taken away between these two instants.
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
