//! The waiters of one key, in the order of their turns, and what each learns from a reply.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::grant::{Grant, HoldEnd, StoredDepth};
use super::inputs_and_actions::{AcquireSpec, RequestReply, unanswered};
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::HoldId;
use crate::base::lease_times::{LeaseTimes, StoreClock, TokenSeries, deadline};
use crate::base::metrics::HandoffPath;
use crate::base::options::Mode;
use crate::store::{AcquireReply, HandoffMessage, Residue};

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
pub(super) enum WaiterStage {
    /// The store knows nothing of the waiter.
    Waiting,
    /// The waiter may be in the queue, or have the lock.
    Unsure,
    /// The waiter is in the queue. The last answer tells it the server's clock.
    Queued(StoreClock),
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Waiter {
    pub(super) spec: AcquireSpec,
    /// Whether a request was sent for the waiter.
    pub(super) was_requested: bool,
    pub(super) stage: WaiterStage,
    /// Whether an acquire of the waiter was never answered. Then its end needs a tombstone.
    pub(super) unanswered: bool,
}

impl Deref for Waiter {
    type Target = AcquireSpec;

    fn deref(&self) -> &AcquireSpec {
        &self.spec
    }
}

/// The meaning of a reply for a waiter.
#[derive(Clone, Debug)]
pub(crate) enum WaitOutcome {
    Held(Grant),
    Busy {
        /// The remaining lease of the holder; `None` if it never ends.
        remaining: Option<Duration>,
    },
    /// The lock has moved to the waiter, but only another request can find out for how long.
    Moved,
    Failed(StoreError),
}

impl Waiter {
    pub(crate) fn new(spec: AcquireSpec) -> Self {
        Self {
            spec,
            was_requested: false,
            stage: WaiterStage::Waiting,
            unanswered: false,
        }
    }

    /// Returns whether one request may be for both waiters: readers share a lock, and enter it together.
    pub(super) fn shares_request_with(&self, other: &Self) -> bool {
        let is_reader = |waiter: &Self| waiter.mode == Mode::Shared && waiter.limit.is_none();
        is_reader(self)
            && is_reader(other)
            && self.request.ttl == other.request.ttl
            && self.is_single_attempt() == other.is_single_attempt()
    }

    pub(super) fn is_known(&self) -> bool {
        self.stage != WaiterStage::Waiting
    }

    /// Processes the reply to the waiter, which is the one at `at` in the request, and a message that arrived before
    /// the reply was read.
    pub(crate) fn apply_reply(
        &mut self,
        reply: &RequestReply,
        at: usize,
        message: Option<&HandoffMessage>,
        now: Instant,
    ) -> WaitOutcome {
        let outcome = match reply.get(at) {
            Ok(AcquireReply::Held {
                token,
                lease,
                at,
                is_contended,
            }) if now < deadline(reply.sent, lease, self.grace) => {
                // If the waiter has left, its lock is released.
                self.note_unsure();
                let tokens = TokenSeries::new(token, at, now);
                let via = HandoffPath::Request;
                let grant = self.grant(tokens, reply.sent, lease, is_contended, via);
                return WaitOutcome::Held(grant);
            }
            Ok(AcquireReply::Held { .. }) => {
                // The server may still hold the lock for the waiter, and only another request can find out for how
                // long.
                self.note_unanswered();
                let late = "the answer came after the lease had ended";
                return WaitOutcome::Failed(unanswered(late));
            }
            // Only a hold that has ended can meet its tombstone, and no caller waits for that reply.
            Ok(AcquireReply::Ended) => return WaitOutcome::Busy { remaining: None },
            // The request of a single attempt has no entry, so it leaves nothing in the queue.
            Ok(AcquireReply::Busy { remaining, now: at }) => {
                if !self.is_single_attempt() {
                    self.stage = WaiterStage::Queued(StoreClock {
                        sent: reply.sent,
                        at,
                        generation: reply.sent_generation,
                    });
                }
                WaitOutcome::Busy { remaining }
            }
            Err(error) if error.is_denied() => return WaitOutcome::Failed(error),
            Err(error) => {
                // A request that has certainly failed leaves nothing behind.
                if error.failure_class() == FailureClass::OutcomeUnknown {
                    self.note_unanswered();
                }
                WaitOutcome::Failed(error)
            }
        };
        // The message is newer than the reply.
        let message = message.filter(|message| message.holds.contains(&self.request.hold));
        message.map_or(outcome, |message| {
            self.outcome_of_move(message, reply.generation, now)
        })
    }

    /// Processes a message that the lock has moved to this waiter.
    pub(super) fn outcome_of_move(
        &self,
        message: &HandoffMessage,
        generation: u64,
        now: Instant,
    ) -> WaitOutcome {
        // Only the reply *busy* has told the time of the server, with which the message can be compared.
        let start = match self.stage {
            WaiterStage::Queued(clock) => {
                clock.lease_start(message.at, message.lease, self.grace, generation, now)
            }
            WaiterStage::Waiting | WaiterStage::Unsure => None,
        };
        start.map_or(WaitOutcome::Moved, |start| {
            let tokens = TokenSeries::new(message.token, message.at, now);
            WaitOutcome::Held(self.grant(tokens, start, message.lease, true, HandoffPath::Message))
        })
    }

    pub(super) fn note_unanswered(&mut self) {
        self.unanswered = true;
        self.note_unsure();
    }

    fn note_unsure(&mut self) {
        // A waiter in the queue stays known as one: its place must be removed whatever else has happened.
        if self.stage == WaiterStage::Waiting {
            self.stage = WaiterStage::Unsure;
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
        Grant {
            hold: self.request.hold,
            mode: self.mode,
            tokens,
            lease: LeaseTimes::new(sent, lease, self.request.ttl, self.grace),
            depth: StoredDepth {
                depth: Some(1),
                seq: 0,
            },
            unanswered: self.unanswered,
            is_open: true,
            // The store sends messages only to holders that have named their inbox.
            is_contended: is_contended || self.is_single_attempt(),
            // The caller sets it.
            generation: 0,
            via,
        }
    }

    /// The end of whatever the store knows of the waiter.
    pub(super) fn release(&self, now: Instant) -> HoldEnd {
        HoldEnd {
            hold: self.request.hold,
            mode: self.mode,
            residue: Residue {
                unanswered: self.unanswered,
                nested: false,
            },
            // The waiter may be in the store's queue.
            open: false,
            deadline: now,
            ttl: self.request.ttl,
            since: None,
            with_others: false,
        }
    }
}

/// The waiters of one key in one process. A hold waits only once. No waiter is found by walking through the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    /// The waiters in the order of their turns, so that the first ones are adjacent in memory.
    ordered: BTreeMap<Position, Waiter>,
    positions: HashMap<HoldId, Position, RandomState>,
    /// The waiters that make only one attempt.
    single_attempts: BTreeMap<Position, HoldId>,
    /// The number of waiters that have joined so far.
    joined: Position,
}

type Position = u64;

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.ordered.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Waiter> {
        self.ordered.first_key_value().map(|(_, waiter)| waiter)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Waiter> {
        self.ordered.values()
    }

    pub(super) fn single_attempts(&self) -> impl Iterator<Item = HoldId> {
        self.single_attempts.values().copied()
    }

    pub(super) fn get(&self, hold: HoldId) -> Option<&Waiter> {
        self.ordered.get(self.positions.get(&hold)?)
    }

    pub(super) fn get_mut(&mut self, hold: HoldId) -> Option<&mut Waiter> {
        self.ordered.get_mut(self.positions.get(&hold)?)
    }

    /// Adds a waiter. Returns whether it is the first one.
    pub(super) fn add(&mut self, waiter: Waiter) -> bool {
        let (hold, position) = (waiter.request.hold, self.joined);
        self.joined += 1;
        self.positions.insert(hold, position);
        if waiter.is_single_attempt() {
            self.single_attempts.insert(position, hold);
        }
        self.ordered.insert(position, waiter);
        self.ordered.len() == 1
    }

    /// Removes a waiter. Also returns whether it was the first one.
    pub(super) fn remove(&mut self, hold: HoldId) -> Option<(Waiter, bool)> {
        let position = self.positions.remove(&hold)?;
        let waiter = self.ordered.remove(&position)?;
        if waiter.is_single_attempt() {
            self.single_attempts.remove(&position);
        }
        let first = self.ordered.first_key_value();
        let was_first = first.is_none_or(|(first, _)| position < *first);
        Some((waiter, was_first))
    }
}

#[cfg(test)]
impl Waiters {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.ordered.values_mut()
    }

    /// Returns whether the values that are derived from the waiters are consistent with them.
    pub(super) fn is_consistent(&self) -> bool {
        let position = |(position, waiter): (&Position, &Waiter)| (waiter.request.hold, *position);
        let positions: HashMap<_, _, _> = self.ordered.iter().map(position).collect();
        let single = self.ordered.iter().filter(|(_, it)| it.is_single_attempt());
        let single = single.map(|(position, waiter)| (*position, waiter.request.hold));
        positions == self.positions && single.eq(self.single_attempts.clone())
    }
}

/// Two values are equal if the same waiters wait in the same order.
#[cfg(test)]
impl PartialEq for Waiters {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
impl Eq for Waiters {}

#[cfg(test)]
impl std::hash::Hash for Waiters {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|waiter| waiter.hash(state));
    }
}
