//! What callers want, what goes into a step of the machine, and what comes out of it.

use std::sync::Arc;

use tokio::time::Instant;

use super::grant::{Grant, Release};
use super::holder_lookup::InTheWay;
use crate::base::error::{Effect, LockError, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::time::Grace;
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
    /// The lock has moved to a waiter, as the store says in this connection epoch.
    Handoff { message: HandoffMessage, epoch: u64 },
    /// A caller has come for its grant; from now on the hold is renewed.
    Entered { waiter: HoldId, hold: HoldId },
    /// The hold continues with this waiter, in memory, and is not renewed until the caller enters.
    HandOn {
        hold: HoldId,
        waiter: HoldId,
        until: Instant,
    },
    /// A hold ends.
    Release(Release),
    /// A hold shares from now on the lock that it had exclusively.
    Downgraded(HoldId),
    /// A hold has lost its lock.
    Lost(HoldId),
    /// The lock may be free: a release was answered, or messages may have been missed.
    MaybeFree,
    /// Another process has come to wait for the lock that this one has.
    Contended,
    /// Whether messages come in from now on.
    Listening(bool),
    /// The time of [`LocalQueue::due`] has come.
    Due,
}

/// What must be done.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Asks for the lock. The answer is an input.
    Ask(Ask),
    /// Ends the hold of the input. The release is sent until the store has answered or the TTL is over. With a successor
    /// the answer is an input; without one the input is [`Input::MaybeFree`].
    Release(Release, Option<Successor>),
    /// Ends the hold of a waiter that has left: no caller waits for it.
    Undo(Release, Option<Successor>),
    /// Brings a waiter its lock.
    Grant(HoldId, Grant),
    /// Sends a waiter away.
    Refuse(HoldId, Refusal),
    /// Takes back the lock of a waiter that has not come for it, and releases it.
    PassOver(HoldId),
    /// Checks the subscription: a message should have come before the request that brought the lock.
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
    /// No answer about the successor that a release has named.
    Unsure(Option<StoreError>),
    /// The refusal of a request: nothing was done, and asking again is of no use.
    Refused(StoreError),
}

impl Reply {
    /// Whether the store has said something, and not only failed to answer.
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
    /// Another hold has the lock, and the caller does not want to wait.
    Busy,
    /// The waiter has asked as often, or waited as long, as it may. The error is what kept it from its lock, if that was
    /// not another holder.
    Late(Option<StoreError>),
    Failed(StoreError),
    /// The waiter had the lock for a while, and was not polled.
    PassedOver,
    /// No caller waits any more.
    Closed,
}

impl Refusal {
    /// The error for a caller that has waited for the lock since `since`, and has `seen` this holder; `None` if it must
    /// ask again.
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
            Self::Busy => LockError::Busy { key: name },
            Self::Closed => LockError::Closed { key: name },
            Self::Failed(source) => LockError::Store {
                key: Some(name),
                source,
            },
            Self::Late(source) => {
                let (waited, seen) = (since.elapsed(), seen().filter(|_| source.is_none()));
                let (holder, others) = seen.map_or((None, 0), |seen| {
                    let InTheWay { holder, others } = *seen;
                    (Some(Box::new(holder)), others)
                });
                events::timed_out(key, hold, waited, holder.as_deref());
                LockError::Timeout {
                    key: name,
                    waited,
                    holder,
                    others,
                    source,
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

/// All failures are equal, since no state depends on what they say.
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

    /// The failure that kept a waiter from its lock, if it was not another holder.
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

/// The error of an acquire while the store does not answer any more.
pub(super) fn silent() -> StoreError {
    unanswered("no answer any more")
}

/// What a caller wants.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Wish {
    pub(super) request: AcquireRequest,
    pub(super) mode: Mode,
    /// The most holders that the lock may have, if the caller shares it.
    pub(super) limit: Option<u32>,
    /// How many permits it takes of them.
    pub(super) takes: u32,
    /// Whether the caller goes before those that want the lock in the other mode.
    pub(super) is_preferred: bool,
    /// Whether the caller waits for no more than the request in flight.
    pub(super) asks_once: bool,
    /// How much longer its lease is to last in the store than here, at least.
    pub(super) grace: Grace,
    /// Whether the caller may continue the hold of another one.
    pub(super) may_inherit: bool,
}

/// The request for the first waiter of a line, or for the readers that are first.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Acquire(AcquireRequest),
    Share(ShareRequest),
}

impl Wish {
    /// The request for this caller alone; or, if it is a reader, for it and those that enter with it. A caller that takes several
    /// permits has a hold for each, and all of them enter together.
    pub(super) fn ask(self, holds: impl FnOnce() -> Vec<HoldId>) -> Ask {
        let AcquireRequest { ttl, entry, .. } = self.request;
        match self.mode {
            Mode::Exclusive => Ask::Acquire(self.request),
            Mode::Shared => Ask::Share(ShareRequest {
                holds: match self.takes {
                    1 => holds(),
                    takes => self.request.hold.of_permits(takes).collect(),
                },
                ttl,
                limit: self.limit,
                passes: self.is_preferred,
                entry,
            }),
        }
    }
}
