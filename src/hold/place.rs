//! What the renewals note about a hold: when it is looked at next, and which attempts are in flight.

use tokio::time::Instant;

/// The place of a hold in the schedule of its runtime. The schedule is ordered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The time at which the hold is looked at next.
    pub(super) at: Instant,
    /// The number of the hold on its runtime.
    pub(super) number: u64,
}

/// The attempts to renew a hold that have no response yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    pub(super) first: Instant,
    pub(super) last: Instant,
}
