//! What callers want, what goes into a step of the machine, and what comes out of it.

use std::sync::Arc;

use tokio::time::Instant;

use super::grant::{Grant, Release};
use crate::base::error::HeldBy;
use crate::base::error::{Effect, LockError, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::store::{AcquireReply, AcquireRequest, HandoffMessage, ShareRequest, Successor};

/// What has happened.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// A caller wants the lock.
    Join(Wish),
    /// A caller waits no longer, or gives back a grant.
    Leave(HoldId),
    /// The request in flight is answered.
    Answered(Answer),
    /// The lock has moved to a waiter, as the store tells in this connection epoch.
    Handoff { message: HandoffMessage, epoch: u64 },
    /// A caller has come for its grant; from now on the hold is renewed.
    Entered { waiter: HoldId, hold: HoldId },
    /// The hold goes on with this waiter, in memory, and is not renewed until the caller enters.
    HandOn {
        hold: HoldId,
        waiter: HoldId,
        until: Instant,
    },
    /// A hold ends.
    Release(Release),
    /// A hold shares from now on the lock that it had alone.
    Downgraded(HoldId),
    /// A hold has lost its lock.
    Lost(HoldId),
    /// The lock may be free: a release was answered, or messages may have been missed.
    MaybeFree,
    /// Another process has come to wait for the lock that this one has.
    Contended,
    /// Whether messages come in from now on.
    Listening(bool),
    /// The time has come that [`LocalQueue::due`] tells.
    Due,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// To ask for the lock. The answer is an input.
    Ask(Ask),
    /// To end the hold of the input, until the store has answered or its TTL is over. With a successor the
    /// answer is an input; without one it is [`Input::MaybeFree`].
    Release(Release, Option<Successor>),
    /// Ends the hold of a waiter that has left: no caller waits for it.
    Undo(Release, Option<Successor>),
    /// To bring a waiter its lock.
    Grant(HoldId, Grant),
    /// To send a waiter away.
    Refuse(HoldId, Refusal),
    /// To take back the lock of a waiter that has not come for it, and to release it.
    PassOver(HoldId),
    /// A message should have come before the question that brought the lock.
    CheckSubscription,
}

/// What the store said to the request in flight.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Before the request was sent, and the connection epoch then.
    pub(super) sent: Instant,
    pub(super) sent_epoch: u64,
    /// The connection epoch when the answer was read.
    pub(super) epoch: u64,
    pub(super) reply: Reply,
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Acquire(AcquireReply),
    /// To each of the readers.
    Share(Vec<AcquireReply>),
    /// Nothing, to an acquire.
    Unanswered(StoreError),
    /// Nothing of the successor, to a release that has named it.
    Unsure(Option<StoreError>),
    /// That nothing was done, and that asking again is no use.
    Refused(StoreError),
}

impl Answer {
    /// What it says to one of those that it is for.
    pub(super) fn to(&self, at: usize) -> Self {
        match &self.reply {
            Reply::Share(replies) => {
                let reply = replies.get(at).copied();
                let reply = reply.map_or(Reply::Unsure(None), Reply::Acquire);
                Self { reply, ..*self }
            }
            _ => self.clone(),
        }
    }
}

/// Why a waiter does not get the lock.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// Another hold has it, and the caller does not want to wait.
    Busy,
    /// It has asked as often as it may, or waited as long; with what kept it from its lock if it was not
    /// another holder.
    Late(Option<StoreError>),
    Failed(StoreError),
    /// It had the lock for a while, and was not polled.
    PassedOver,
    /// No caller waits any more.
    Closed,
}

impl Refusal {
    /// The error for a caller that has waited for the lock since then, and has seen this holder; `None` if it is to ask
    /// again.
    pub(super) fn error(
        self,
        key: &LockKey,
        hold: HoldId,
        since: Instant,
        seen: impl FnOnce() -> Option<Box<HeldBy>>,
    ) -> Option<LockError> {
        let name = key.name().to_owned();
        Some(match self {
            Self::PassedOver => return None,
            Self::Busy => LockError::Busy { key: name },
            Self::Closed => LockError::Closed { key: name },
            Self::Failed(source) => LockError::Store {
                key: Some(name),
                source,
            },
            Self::Late(source) => {
                let (waited, holder) = (since.elapsed(), seen().filter(|_| source.is_none()));
                events::timed_out(key, hold, waited, holder.as_deref());
                LockError::Timeout {
                    key: name,
                    waited,
                    holder,
                    source,
                }
            }
        })
    }
}

/// What the store told last when it was asked for a lock.
#[derive(Clone, Debug, Default)]
pub(super) enum Heard {
    /// No answer has come yet.
    #[default]
    Nothing,
    /// Another hold has the lock.
    Busy,
    Failure(StoreError),
}

/// Failures are told apart by nothing that a state depends on.
#[cfg(test)]
impl PartialEq for Heard {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

#[cfg(test)]
impl Eq for Heard {}

#[cfg(test)]
impl std::hash::Hash for Heard {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
    }
}

impl Heard {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Failure(_))
    }

    /// What kept a waiter from its lock if it was not another holder.
    pub(super) fn failure(&self) -> Option<StoreError> {
        match self {
            Self::Nothing => Some(unanswered("no answer yet")),
            Self::Busy => None,
            Self::Failure(error) => Some(error.clone()),
        }
    }

    /// Why a waiter that asks only once does not get its lock.
    pub(super) fn refusal(&self) -> Refusal {
        self.failure().map_or(Refusal::Busy, Refusal::Failed)
    }
}

/// The error of an acquire that may have been executed.
pub(super) fn unanswered(cause: &'static str) -> StoreError {
    StoreError::new("acquire", &Arc::from("the store"), Effect::Unknown, cause)
}

/// What a caller wants.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Wish {
    pub(super) request: AcquireRequest,
    pub(super) mode: Mode,
    /// With how many holders at most it shares the lock.
    pub(super) limit: Option<u32>,
    /// Whether it goes before those who want the lock in the other mode.
    pub(super) is_preferred: bool,
    /// Whether it waits for no more than the request in flight.
    pub(super) asks_once: bool,
    /// Whether it may go on with the hold of another one.
    pub(super) may_inherit: bool,
}

/// What is asked for the first waiter of a line, or for the readers that are first.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire(AcquireRequest),
    Share(ShareRequest),
}

impl Wish {
    /// The request for this caller alone; or, of a reader, for it and those who enter with it.
    pub(super) fn ask(self, holds: impl FnOnce() -> Vec<HoldId>) -> Ask {
        let AcquireRequest { ttl, entry, .. } = self.request;
        match self.mode {
            Mode::Exclusive => Ask::Acquire(self.request),
            Mode::Shared => Ask::Share(ShareRequest {
                holds: holds(),
                ttl,
                limit: self.limit,
                passes: self.is_preferred,
                entry,
            }),
        }
    }
}
