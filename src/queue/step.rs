//! The wishes of callers, the inputs of a step of the machine, and its actions.

use std::sync::Arc;

use tokio::time::Instant;

use super::grant::{Grant, Release};
use super::holder_lookup::InTheWay;
use crate::base::error::{Effect, LockError, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::time::Grace;
use crate::store::{AcquireReply, AcquireRequest, HandoffMessage, ShareRequest};

/// An event for the machine.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// A caller wants the lock.
    Join(Wish),
    /// A caller no longer waits, or returns a grant.
    Leave(HoldId),
    /// The request in flight is answered.
    Answered(Answer),
    /// The lock has moved to a waiter, as a message says that arrived in this connection epoch.
    Handoff { message: HandoffMessage, epoch: u64 },
    /// A caller has claimed its grant. From now on the hold is renewed.
    Entered { waiter: HoldId, hold: HoldId },
    /// The hold continues with this waiter, in memory, and is not renewed until the caller enters.
    HandOff {
        hold: HoldId,
        waiter: HoldId,
        until: Instant,
    },
    /// A hold ends. Its release is sent after this step, and before the request that the step may make.
    Release(HoldId),
    /// A hold has lost its lock.
    Lost(HoldId),
    /// The lock may be free: messages may have been missed.
    MaybeFree,
    /// The release of a hold was answered, or is given up.
    Released(HoldId),
    /// Another process has begun to wait for the lock that this process has.
    Contended,
    /// Says whether messages can arrive from now on.
    Listening(bool),
    /// The time of [`LocalQueue::due`] has been reached.
    Due,
    /// No caller waits from now on.
    Close,
    /// The step panics.
    #[cfg(test)]
    Panic,
}

/// A task that a step leaves to its caller.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Sends a request for the lock. The answer is an input.
    Ask(Ask),
    /// Ends the hold of a waiter that has left: no caller waits for it.
    Undo(Release),
    /// Grants a waiter its lock.
    Grant(HoldId, Grant),
    /// Rejects a waiter.
    Refuse(HoldId, Refusal),
    /// Takes back the lock of a waiter that has not claimed it, and releases it.
    PassOver(HoldId),
    /// Checks the subscription, because a message should have arrived before the request that brought the lock.
    CheckSubscription,
}

/// The answer of the store to the request in flight.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The instant before the request was sent, and the connection epoch at that instant.
    pub(super) sent: Instant,
    pub(super) sent_epoch: u64,
    /// The connection epoch when the answer was read.
    pub(super) epoch: u64,
    pub(super) reply: Reply,
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Acquire(AcquireReply),
    /// The replies to the readers, one for each.
    Share(Vec<AcquireReply>),
    /// No answer to an acquire.
    Unanswered(StoreError),
    /// The rejection of a request: nothing was executed, and a repetition is useless.
    Refused(StoreError),
}

impl Reply {
    /// Returns whether the store has responded.
    pub(super) fn is_of_store(&self) -> bool {
        matches!(self, Self::Acquire(_) | Self::Share(_))
    }
}

impl Answer {
    /// The part for one of the waiters that the answer is for.
    pub(super) fn to(&self, at: usize) -> Self {
        match &self.reply {
            Reply::Share(replies) => {
                let reply = replies.get(at).copied();
                let missing = || Reply::Unanswered(unanswered("no answer for this reader"));
                let reply = reply.map_or_else(missing, Reply::Acquire);
                Self { reply, ..*self }
            }
            _ => self.clone(),
        }
    }
}

/// The reason why a waiter does not get the lock.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// Another hold has the lock, and the caller does not want to wait.
    Busy,
    /// The waiter has made its last attempt, or has reached its limit. The error is the failure that kept it from its
    /// lock, if that was not another holder.
    Late(Option<StoreError>),
    Failed(StoreError),
    /// The waiter had the lock for a while, and was not polled.
    PassedOver,
    /// No caller waits any more, because the queues are closed.
    Closed,
}

impl Refusal {
    /// Returns whether it makes sense to wait for the lock after an attempt that ended with this.
    pub(super) fn may_retry(&self) -> bool {
        match self {
            Self::Busy | Self::PassedOver => true,
            Self::Late(_) | Self::Closed => false,
            Self::Failed(error) => !error.is_refused(),
        }
    }

    /// The error for a caller that has waited for the lock since `since`, and has `seen` this holder. Returns `None` if
    /// it must send another request.
    pub(super) fn error(
        self,
        key: &LockKey,
        hold: HoldId,
        since: Instant,
        seen: impl FnOnce() -> Option<Box<InTheWay>>,
    ) -> Option<LockError> {
        let name = key.name().to_owned();
        Some(match self {
            Self::PassedOver => return None,
            Self::Busy => LockError::busy(&name),
            Self::Closed => LockError::Closed,
            Self::Failed(source) | Self::Late(Some(source)) => {
                LockError::of_store(Some(name), source)
            }
            Self::Late(None) => {
                let waited = since.elapsed();
                let (holder, others) = seen().map_or((None, 0), |seen| {
                    let InTheWay { holder, others } = *seen;
                    (Some(Box::new(holder)), others)
                });
                events::timed_out(key, hold, waited, holder.as_deref());
                LockError::Busy {
                    key: name,
                    waited,
                    holder,
                    others,
                }
            }
        })
    }
}

/// The last answer of the store to a request for a lock.
#[derive(Clone, Debug, Default)]
pub(super) enum Heard {
    /// No answer has come yet.
    #[default]
    Nothing,
    /// Another hold has the lock.
    Busy,
    Failure(StoreError),
}

/// All failures are equal, because no state depends on their messages.
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

    /// The failure that kept a waiter from its lock, unless another holder did.
    pub(super) fn failure(&self) -> Option<StoreError> {
        match self {
            Self::Nothing => Some(unanswered("no answer yet")),
            Self::Busy => None,
            Self::Failure(error) => Some(error.clone()),
        }
    }

    /// The reason why a waiter that makes only one attempt does not get its lock.
    pub(super) fn refusal(&self) -> Refusal {
        self.failure().map_or(Refusal::Busy, Refusal::Failed)
    }
}

/// The error of an acquire that may have been executed.
pub(super) fn unanswered(cause: &'static str) -> StoreError {
    StoreError::new("acquire", &Arc::from("the store"), Effect::Unknown, cause)
}

/// The error of an acquire while the store no longer responds.
pub(super) fn silent() -> StoreError {
    unanswered("no answer any more")
}

/// The wish of a caller.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Wish {
    pub(super) request: AcquireRequest,
    pub(super) mode: Mode,
    /// The maximum number of holders of the lock, if the caller shares it.
    pub(super) limit: Option<u32>,
    /// Whether the caller waits no longer than for the request in flight.
    pub(super) asks_once: bool,
    /// The minimum time by which its lease must last longer in the store than in this process.
    pub(super) grace: Grace,
    /// Whether the caller may continue the hold of another one.
    pub(super) may_inherit: bool,
}

/// The request for the first waiter of a local queue, or for the readers at the head.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire(AcquireRequest),
    Share(ShareRequest),
}

impl Wish {
    /// The request for this caller alone. For a reader, it is also for those that enter with it.
    pub(super) fn ask(self, holds: impl FnOnce() -> Vec<HoldId>) -> Ask {
        let AcquireRequest { ttl, entry, .. } = self.request;
        match self.mode {
            Mode::Exclusive => Ask::Acquire(self.request),
            Mode::Shared => Ask::Share(ShareRequest {
                holds: holds(),
                ttl,
                limit: self.limit,
                entry,
            }),
        }
    }
}
