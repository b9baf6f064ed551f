//! The end of a hold: what is known of it, and which end it has in the store.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::store::{End, Leftovers, Successor};

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    /// Whether an acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Whether its depth may have changed in the store.
    pub(crate) nested: bool,
    /// Whether it was not found lost.
    pub(crate) open: bool,
    /// Until when the lease lasts for certain.
    pub(crate) deadline: Instant,
    /// How long the lock may stand in the store after the last request about it.
    pub(crate) ttl: Duration,
    /// Since when it has had the lock, as far as is known.
    pub(crate) since: Option<Instant>,
    /// How long it has the lock at least, if it had it for less.
    pub(crate) min_hold: Option<Duration>,
    /// Whether it ends because of a deadlock: the lock is for those who wait for it in other processes.
    pub(crate) gives_way: bool,
}

impl Release {
    /// How the hold ends, if its release is sent now for the first time.
    pub(super) fn end(&self, successor: Option<Successor>, now: Instant) -> End {
        let leftovers = Leftovers {
            unanswered: self.unanswered,
            nested: self.nested,
        };
        // The take or the grant has removed the place in the queue, and none comes back while the lease lasts.
        let may_wait = !self.open || now >= self.deadline;
        match (successor, self.min_hold) {
            (Some(successor), _) => End::HandTo(successor, leftovers),
            (None, Some(min_hold)) => End::Retain(min_hold, leftovers),
            (None, None) if may_wait || leftovers != Leftovers::default() => End::Full(leftovers),
            (None, None) => End::Short,
        }
    }
}
