//! One waiter of a local queue, the request in flight for it, and what it learns from the answer.

use std::ops::Deref;
use std::time::Duration;

use tokio::time::Instant;

use super::clock::StoreClock;
use super::grant::{Grant, StoredDepth};
use super::release::Release;
use super::step::{Answer, Reply, unanswered};
use super::tokens::TokenSeries;
use super::wish::Wish;
use crate::base::error::{Effect, StoreError};
use crate::base::id::HoldId;
use crate::base::metrics::Via;
use crate::base::option_types::Mode;
use crate::base::time::{LeaseTimes, deadline};
use crate::store::{AcquireReply, HandoffMessage};

/// What the store may know of a waiter.
///
/// ```text
/// Waiting ──no answer──▶ Unsure ──busy──▶ Queued ◀─┐
///    │                                     ▲  │    │ busy, no answer
///    └────────────────busy────────────────┘  └────┘
/// ```
/// From each of them it may be granted the lock. If it leaves, its hold is released, unless it is `Waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Stage {
    /// Nothing.
    Waiting,
    /// It may stand in the queue, or have the lock.
    Unsure,
    /// It stands in the queue, and reads the server's clock by its last answer.
    Queued(StoreClock),
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Waiter {
    pub(super) wish: Wish,
    /// How many times the store was asked for it.
    pub(super) asked: u32,
    pub(super) stage: Stage,
    /// Whether an acquire of it was never answered, so that its end needs a tombstone.
    pub(super) unanswered: bool,
}

impl Deref for Waiter {
    type Target = Wish;

    fn deref(&self) -> &Wish {
        &self.wish
    }
}

/// The one request in flight that may bring a waiter the lock, or the readers that are first.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Flight {
    pub(super) waiters: Vec<HoldId>,
    pub(super) kind: Kind,
    /// The waiters that have left: their answer is undone.
    pub(super) left: Vec<Waiter>,
    /// A message to them that came before the answer. The answer is older, and is read first.
    pub(super) message: Option<Box<HandoffMessage>>,
    /// Whether another process has come to wait since. An answer that brings the lock may be older, and not know it.
    pub(super) is_contended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Kind {
    /// An acquire of its own; `in_time` if nothing but the time was its reason: if it
    /// brings the lock, a message should have come.
    Acquire { in_time: bool },
    /// The release of another hold, which names it as successor. Then so many hand-offs follow each other.
    Release { handoffs: u32 },
}

impl Kind {
    /// How a waiter learns of a lock that the answer, or the message before it, has brought.
    pub(super) fn via(self, told: Via) -> Via {
        match self {
            Self::Release { .. } if told == Via::Request => Via::Release,
            Self::Acquire { in_time: true } if told == Via::Request => Via::Heartbeat,
            Self::Acquire { .. } | Self::Release { .. } => told,
        }
    }
}

/// What an answer means for a waiter.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Held(Grant),
    Busy {
        /// How long the lease of the holder lasts; `None` if it never ends.
        remaining: Option<Duration>,
    },
    /// The lock has moved to it, but only a fresh answer tells for how long.
    Moved,
    Unknown(Option<StoreError>),
    Refused(StoreError),
}

impl Waiter {
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            asked: 0,
            stage: Stage::Waiting,
            unanswered: false,
        }
    }

    /// Whether one request asks for both of them: readers share a lock, and enter it together.
    pub(super) fn enters_with(&self, other: &Self) -> bool {
        let is_reader = |waiter: &Self| waiter.mode == Mode::Shared && waiter.limit.is_none();
        is_reader(self)
            && is_reader(other)
            && self.request.ttl == other.request.ttl
            && self.request.entry.is_some() == other.request.entry.is_some()
    }

    /// Whether it goes before the other one, which came first.
    pub(super) fn passes(&self, other: &Self) -> bool {
        self.is_preferred && other.mode != self.mode
    }

    /// Whether the store may know of it.
    pub(super) fn is_known(&self) -> bool {
        self.stage != Stage::Waiting
    }

    /// Takes in the answer to a request for this waiter, and a message that has come before it was read.
    pub(super) fn learn(
        &mut self,
        answer: Answer,
        message: Option<&HandoffMessage>,
        now: Instant,
    ) -> Outcome {
        let message = message.filter(|message| message.holds.contains(&self.request.hold));
        let Answer {
            sent,
            sent_epoch,
            epoch,
            reply,
        } = answer;
        match reply {
            Reply::Acquire(AcquireReply::Held {
                token,
                lease,
                at,
                is_contended,
            }) if now < deadline(sent, lease) => {
                let tokens = TokenSeries::new(token, at, now);
                Outcome::Held(self.grant(tokens, sent, lease, is_contended, Via::Request))
            }
            Reply::Acquire(AcquireReply::Held { .. }) => {
                // The server may hold the lock for it yet, and only a fresh answer tells for how long.
                self.unanswered = true;
                self.suspect();
                let error = unanswered("the answer came after the lease had ended");
                Outcome::Unknown(Some(error))
            }
            Reply::Acquire(AcquireReply::Busy { remaining, now: at }) => {
                let clock = StoreClock {
                    sent,
                    at,
                    epoch: sent_epoch,
                };
                if self.request.entry.is_some() {
                    self.stage = Stage::Queued(clock);
                }
                let busy = Outcome::Busy { remaining };
                message.map_or(busy, |message| self.moved(message, epoch, now))
            }
            // Only a hold that has ended meets its tombstone, and no caller waits for that answer. The replies to
            // readers are read one by one.
            Reply::Acquire(AcquireReply::Ended) | Reply::Share(_) => {
                Outcome::Busy { remaining: None }
            }
            Reply::Unanswered(error) => {
                // One that has failed for certain leaves nothing behind.
                if error.effect() == Effect::Unknown {
                    self.unanswered = true;
                    self.suspect();
                }
                let unknown = Outcome::Unknown(Some(error));
                message.map_or(unknown, |message| self.moved(message, epoch, now))
            }
            Reply::Unsure(error) => {
                self.suspect();
                let unknown = Outcome::Unknown(error);
                message.map_or(unknown, |message| self.moved(message, epoch, now))
            }
            Reply::Refused(error) => Outcome::Refused(error),
        }
    }

    /// Takes in a message that the lock has moved to this waiter.
    pub(super) fn moved(&self, message: &HandoffMessage, epoch: u64, now: Instant) -> Outcome {
        let start = match self.stage {
            Stage::Queued(clock) => clock.lease_start(message, epoch, now),
            Stage::Waiting | Stage::Unsure => None,
        };
        start.map_or(Outcome::Moved, |start| {
            let tokens = TokenSeries::new(message.token, message.at, now);
            Outcome::Held(self.grant(tokens, start, message.lease, true, Via::Message))
        })
    }

    fn suspect(&mut self) {
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
        via: Via,
    ) -> Grant {
        // The store tells only those of it that have named their inbox.
        let is_told = self.request.entry.is_some_and(|entry| entry.tells);
        Grant {
            hold: self.request.hold,
            mode: self.mode,
            tokens,
            lease: LeaseTimes::new(sent, lease, self.request.ttl),
            depth: StoredDepth::FIRST,
            unanswered: self.unanswered,
            is_open: true,
            is_contended: is_contended || !is_told,
            // The caller knows.
            disconnects: 0,
            via,
        }
    }

    /// The end of whatever the store knows of it.
    pub(super) fn release(&self, now: Instant) -> Release {
        Release {
            hold: self.request.hold,
            mode: self.mode,
            unanswered: self.unanswered,
            nested: false,
            // It may stand in the line.
            open: false,
            deadline: now,
            ttl: self.request.ttl,
            since: None,
            min_hold: None,
            gives_way: false,
        }
    }
}
