//! One waiter of a local queue, the request in flight for it, and what it learns from the answer.

use std::ops::Deref;
use std::time::Duration;

use tokio::time::Instant;

use super::grant::{Grant, Release, StoredDepth, TokenSeries};
use super::step::{Answer, Reply, Wish, unanswered};
use crate::base::error::{Effect, StoreError};
use crate::base::id::HoldId;
use crate::base::metrics::HandoffPath;
use crate::base::options::Mode;
use crate::base::time::{Grace, LeaseTimes, deadline};
use crate::store::{AcquireReply, HandoffMessage, StoreTime};

/// The knowledge that the store may have of a waiter.
///
/// ```text
/// Waiting ──no answer──▶ Unsure ──busy──▶ Queued ◀─┐
///    │                                     ▲  │    │ busy, no answer
///    └────────────────busy────────────────┘  └────┘
/// ```
/// In each stage the waiter may be granted the lock. If it leaves, its hold is released, unless it is `Waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Stage {
    /// The store knows nothing of the waiter.
    Waiting,
    /// The waiter may be in the queue, or have the lock.
    Unsure,
    /// The waiter is in the queue. The last answer tells it the server's clock.
    Queued(StoreClock),
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Waiter {
    pub(super) wish: Wish,
    /// Whether a request was sent for the waiter.
    pub(super) was_asked: bool,
    pub(super) stage: Stage,
    /// Whether an acquire of the waiter was never answered. Then its end needs a tombstone.
    pub(super) unanswered: bool,
}

impl Deref for Waiter {
    type Target = Wish;

    fn deref(&self) -> &Wish {
        &self.wish
    }
}

/// The one request in flight that may bring the lock to a waiter, or to the readers at the head.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct RequestInFlight {
    pub(super) waiters: Vec<HoldId>,
    /// Whether it was sent only because it was due. If it brings the lock, a message should have arrived.
    pub(super) in_time: bool,
    /// The waiters that have left. The answer for them is undone.
    pub(super) left: Vec<Waiter>,
    /// A message to the waiters, which arrived before the answer. The answer is older, and is processed first.
    pub(super) message: Option<Box<HandoffMessage>>,
    /// Whether another process has begun to wait since the request. An answer that brings the lock may be older, and
    /// not say so.
    pub(super) is_contended: bool,
}

impl RequestInFlight {
    /// The way in which a waiter learns of a lock that the answer, or the message before it, has brought.
    pub(super) fn via(&self, told: HandoffPath) -> HandoffPath {
        if self.in_time && told == HandoffPath::Request {
            HandoffPath::Heartbeat
        } else {
            told
        }
    }
}

/// The meaning of an answer for a waiter.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Held(Grant),
    Busy {
        /// The remaining lease of the holder; `None` if it never ends.
        remaining: Option<Duration>,
    },
    /// The lock has moved to the waiter, but only another request can find out for how long.
    Moved,
    Unknown(StoreError),
    Refused(StoreError),
}

impl Waiter {
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            was_asked: false,
            stage: Stage::Waiting,
            unanswered: false,
        }
    }

    /// Returns whether one request may be for both waiters: readers share a lock, and enter it together.
    pub(super) fn enters_with(&self, other: &Self) -> bool {
        let is_reader = |waiter: &Self| waiter.mode == Mode::Shared && waiter.limit.is_none();
        is_reader(self)
            && is_reader(other)
            && self.request.ttl == other.request.ttl
            && self.request.entry.is_some() == other.request.entry.is_some()
    }

    /// Returns whether the store may know of the waiter.
    pub(super) fn is_known(&self) -> bool {
        self.stage != Stage::Waiting
    }

    /// Processes the answer to a request for this waiter, and a message that arrived before the answer was read.
    pub(super) fn learn(
        &mut self,
        answer: Answer,
        message: Option<&HandoffMessage>,
        now: Instant,
    ) -> Outcome {
        let (sent, epoch) = (answer.sent, answer.epoch);
        let outcome = match answer.reply {
            Reply::Acquire(AcquireReply::Held {
                token,
                lease,
                at,
                is_contended,
            }) => {
                let tokens = TokenSeries::new(token, at, now);
                return self.granted(tokens, sent, lease, is_contended, now);
            }
            // Only a hold that has ended can meet its tombstone, and no caller waits for that answer. The replies to
            // readers are processed separately.
            Reply::Acquire(AcquireReply::Ended) | Reply::Share(_) => {
                return Outcome::Busy { remaining: None };
            }
            Reply::Refused(error) => return Outcome::Refused(error),
            Reply::Acquire(AcquireReply::Busy { remaining, now: at }) => {
                let epoch = answer.sent_epoch;
                self.enter_queue(StoreClock { sent, at, epoch });
                Outcome::Busy { remaining }
            }
            Reply::Unanswered(error) => {
                // A request that has certainly failed leaves nothing behind.
                if error.effect() == Effect::Unknown {
                    self.note_unanswered();
                }
                Outcome::Unknown(error)
            }
        };
        // The message is newer than the answer.
        let message = message.filter(|message| message.holds.contains(&self.request.hold));
        message.map_or(outcome, |message| self.moved(message, epoch, now))
    }

    /// Processes a grant of the lock with a lease of this length. It comes from the answer to a request that was sent
    /// at `sent`.
    fn granted(
        &mut self,
        tokens: TokenSeries,
        sent: Instant,
        lease: Duration,
        is_contended: bool,
        now: Instant,
    ) -> Outcome {
        if now < deadline(sent, lease, self.grace) {
            return Outcome::Held(self.grant(
                tokens,
                sent,
                lease,
                is_contended,
                HandoffPath::Request,
            ));
        }
        // The server may still hold the lock for the waiter, and only another request can find out for how long.
        self.note_unanswered();
        let error = unanswered("the answer came after the lease had ended");
        Outcome::Unknown(error)
    }

    /// Processes a message that the lock has moved to this waiter.
    pub(super) fn moved(&self, message: &HandoffMessage, epoch: u64, now: Instant) -> Outcome {
        let start = match self.stage {
            Stage::Queued(clock) => clock.lease_start(message, self.grace, epoch, now),
            Stage::Waiting | Stage::Unsure => None,
        };
        start.map_or(Outcome::Moved, |start| {
            let tokens = TokenSeries::new(message.token, message.at, now);
            Outcome::Held(self.grant(tokens, start, message.lease, true, HandoffPath::Message))
        })
    }

    /// Notes that the waiter is in the store's queue, if its request asked for that.
    fn enter_queue(&mut self, clock: StoreClock) {
        if self.request.entry.is_some() {
            self.stage = Stage::Queued(clock);
        }
    }

    fn note_unanswered(&mut self) {
        self.unanswered = true;
        if self.stage == Stage::Waiting {
            self.stage = Stage::Unsure;
        }
    }

    fn grant(
        &self,
        tokens: TokenSeries,
        sent: Instant,
        lease: Duration,
        is_contended: bool,
        via: HandoffPath,
    ) -> Grant {
        // The store sends messages only to holders that have named their inbox.
        let is_told = self.request.entry.is_some_and(|entry| entry.tells);
        Grant {
            hold: self.request.hold,
            mode: self.mode,
            tokens,
            lease: LeaseTimes::new(sent, lease, self.request.ttl, self.grace),
            depth: StoredDepth::FIRST,
            unanswered: self.unanswered,
            is_open: true,
            is_contended: is_contended || !is_told,
            // The caller sets it.
            generation: 0,
            via,
        }
    }

    /// The end of whatever the store knows of the waiter.
    pub(super) fn release(&self, now: Instant) -> Release {
        Release {
            hold: self.request.hold,
            mode: self.mode,
            unanswered: self.unanswered,
            nested: false,
            // The waiter may be in the store's queue.
            open: false,
            deadline: now,
            ttl: self.request.ttl,
            since: None,
            with_others: false,
        }
    }
}

/// What is known of the server's clock: the server's time at an instant of the local clock, or later.
///
/// A lease is counted from before a request of one's own (P5). A waiter that is granted the lock by a message has not
/// just sent a request. But its last answer contained the server's time, and the waiter knows when it sent that
/// request. So for each local instant it knows the latest time that the server's clock can show. It counts the lease
/// from the moment at which the lock moved, however long the message took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct StoreClock {
    /// The instant before the request was sent that the store answered at its time `at`.
    pub(super) sent: Instant,
    pub(super) at: StoreTime,
    /// The connection epoch at `sent`.
    pub(super) epoch: u64,
}

impl StoreClock {
    /// Returns when the lease of the lock that has moved begins. Returns `None` if only the store can tell. This is so
    /// after a new connection, if the clock of the store was stepped, and if the lease may have expired.
    pub(super) fn lease_start(
        self,
        moved: &HandoffMessage,
        grace: Grace,
        epoch: u64,
        now: Instant,
    ) -> Option<Instant> {
        let passed = moved.at.since(self.at)?;
        let start = self.sent.checked_add(passed)?;
        // The message cannot be older than the move. One per cent is for clocks that differ in rate.
        let is_sound = self.epoch == epoch && start <= now;
        let start = start.checked_sub(passed / 100)?;
        (is_sound && now < deadline(start, moved.lease, grace)).then_some(start)
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

    /// The beginning of the lease if the lock moved this long after the last answer, for a lease of two seconds.
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
        let early = clock(sent).lease_start(&moved, Grace::NONE, EPOCH, sent + 3 * SECOND);
        let late = clock(sent).lease_start(&moved, Grace::NONE, EPOCH, sent + 4 * SECOND);
        assert_eq!(early, late);
        assert_eq!(early, Some(sent + Duration::from_millis(2_970)));
    }

    #[test]
    fn messages_that_come_after_the_lease_are_of_no_use() {
        let sent = Instant::now();
        let start = clock(sent).lease_start(&moved(SECOND), Grace::NONE, EPOCH, sent + 3 * SECOND);
        assert_eq!(start, None);
    }

    #[test]
    fn a_clock_that_was_stepped_is_not_believed() {
        let sent = Instant::now();
        // Forwards: the lock seems to have moved in the future.
        let ahead = clock(sent).lease_start(&moved(60 * SECOND), Grace::NONE, EPOCH, sent + SECOND);
        assert_eq!(ahead, None);
        // Backwards: it seems to have moved before the request.
        let later = StoreClock {
            at: time(SECOND),
            ..clock(sent)
        };
        assert_eq!(
            later.lease_start(&moved(Duration::ZERO), Grace::NONE, EPOCH, sent),
            None
        );
    }

    #[test]
    fn times_of_two_connections_are_not_compared() {
        let sent = Instant::now();
        let start = clock(sent).lease_start(&moved(SECOND), Grace::NONE, EPOCH + 1, sent + SECOND);
        assert_eq!(start, None);
    }
}
