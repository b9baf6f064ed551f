//! From when on the lease of a lock counts that has moved here.
//!
//! A lease is counted from before a request of one's own (P5). A waiter that is given the lock did
//! not ask just now; but its last answer carried the server's time, and it knows when it had sent the
//! question. So it knows what time it was on the server, at the latest, at each instant of its own, and
//! can count the lease from the moment at which the lock moved, however long the message took.

use tokio::time::Instant;

use crate::base::time::deadline;
use crate::store::{HandoffMessage, StoreTime};

/// What is known of the server's clock: its time at an instant of the local one, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct StoreClock {
    /// Before the request was sent that the store answered at `at`.
    pub(super) sent: Instant,
    pub(super) at: StoreTime,
    /// The connection epoch at `sent`.
    pub(super) epoch: u64,
}

impl StoreClock {
    /// From when on the lease of the lock that has moved counts. `None` if only the store can tell:
    /// after a new connection, when its clock was stepped, and when the lease may have ended.
    pub(super) fn lease_start(
        self,
        moved: &HandoffMessage,
        epoch: u64,
        now: Instant,
    ) -> Option<Instant> {
        let passed = moved.at.since(self.at)?;
        let start = self.sent.checked_add(passed)?;
        // The message cannot be older than the move. One per cent is for clocks that differ in rate.
        let is_sound = self.epoch == epoch && start <= now;
        let start = start.checked_sub(passed / 100)?;
        (is_sound && now < deadline(start, moved.lease)).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::id::{FencingToken, Owner};

    const SECOND: Duration = Duration::from_secs(1);
    const EPOCH: u64 = 7;

    fn time(since: Duration) -> StoreTime {
        let micros = 1_700_000_000_000_000 + u64::try_from(since.as_micros()).unwrap_or(0);
        StoreTime { micros }
    }

    /// The lock moved so long after the store was last asked, for two seconds.
    fn moved(after: Duration) -> HandoffMessage {
        HandoffMessage {
            key: "order:42".to_owned(),
            holds: vec![Owner::new().next_hold()],
            token: FencingToken(1),
            at: time(after),
            lease: 2 * SECOND,
        }
    }

    fn clock(sent: Instant) -> StoreClock {
        let at = time(Duration::ZERO);
        StoreClock {
            sent,
            at,
            epoch: EPOCH,
        }
    }

    #[test]
    fn the_lease_counts_from_the_move_and_not_from_the_receipt() {
        let sent = Instant::now();
        let moved = moved(3 * SECOND);
        let early = clock(sent).lease_start(&moved, EPOCH, sent + 3 * SECOND);
        let late = clock(sent).lease_start(&moved, EPOCH, sent + 4 * SECOND);
        assert_eq!(early, late);
        assert_eq!(early, Some(sent + Duration::from_millis(2_970)));
    }

    #[test]
    fn messages_that_come_after_the_lease_are_of_no_use() {
        let sent = Instant::now();
        let start = clock(sent).lease_start(&moved(SECOND), EPOCH, sent + 3 * SECOND);
        assert_eq!(start, None);
    }

    #[test]
    fn a_clock_that_was_stepped_is_not_believed() {
        let sent = Instant::now();
        // Forwards: the lock seems to have moved in the future.
        let ahead = clock(sent).lease_start(&moved(60 * SECOND), EPOCH, sent + SECOND);
        assert_eq!(ahead, None);
        // Backwards: it seems to have moved before the question.
        let later = StoreClock {
            at: time(SECOND),
            ..clock(sent)
        };
        assert_eq!(later.lease_start(&moved(Duration::ZERO), EPOCH, sent), None);
    }

    #[test]
    fn times_of_two_connections_are_not_compared() {
        let sent = Instant::now();
        let start = clock(sent).lease_start(&moved(SECOND), EPOCH + 1, sent + SECOND);
        assert_eq!(start, None);
    }
}
