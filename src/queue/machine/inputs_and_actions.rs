//! The inputs and the actions of the machine, with what a caller wants, and what the store replies.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::grant::{Grant, HoldEnd};
use crate::base::error::{Failure, FailureClass, LockError, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::store::{AcquireReply, AcquireRequest, AcquireSharedRequest, HandoffMessage};

/// The lock that a caller wants.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct AcquireSpec {
    pub(crate) request: AcquireRequest,
    pub(crate) mode: Mode,
    /// The maximum number of holders of the lock, if the caller shares it.
    pub(crate) limit: Option<u32>,
    /// The minimum time by which its lease must last longer in the store than in this process.
    pub(crate) grace: Duration,
    /// Whether the caller may continue the hold of another one.
    pub(crate) may_inherit: bool,
}

/// The holds that one request is for: the first waiter, or the readers at the head.
pub(crate) type HoldIds = SmallVec<[HoldId; 1]>;

impl AcquireSpec {
    /// Returns whether the caller waits no longer than for the request in flight.
    pub(crate) fn is_single_attempt(&self) -> bool {
        self.request.entry.is_none()
    }

    /// The request of a reader, and of the readers that enter with it.
    pub(crate) fn share(&self, holds: HoldIds) -> AcquireSharedRequest {
        AcquireSharedRequest {
            holds: holds.into_vec(),
            ttl: self.request.ttl,
            limit: self.limit,
            entry: self.request.entry,
        }
    }
}

/// An event for the machine.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A caller wants the lock.
    Join(AcquireSpec),
    /// A caller no longer waits, or returns a grant.
    Leave(HoldId),
    /// The request in flight is answered, or has failed.
    Reply(RequestReply),
    /// The lock has moved to a waiter, as a message says that arrived in this generation.
    Handoff {
        message: HandoffMessage,
        generation: u64,
    },
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
    /// The time of [`WaitMachine::due`](super::WaitMachine::due) has been reached.
    Due,
    /// No caller waits from now on.
    Close,
}

/// A task that a step leaves to its caller.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Sends a request for these holds. The reply is an input.
    Send(AcquireSpec, HoldIds),
    /// Ends the hold of a waiter that has left: no caller waits for it.
    Release(HoldEnd),
    /// Grants a waiter its lock.
    Grant(Grant),
    Deny(HoldId, Denied),
    /// Takes back the lock of a waiter that has not claimed it, and releases it.
    PassOver(HoldId),
}

/// The actions of one step. Most steps have at most one.
pub(crate) type Actions = SmallVec<[Action; 1]>;

/// The reply of the store to the request in flight, or its failure.
#[derive(Clone, Debug)]
pub(crate) struct RequestReply {
    /// The instant before the request was sent, and the generation at that instant.
    pub(crate) sent: Instant,
    pub(crate) sent_generation: u64,
    /// The generation when the reply was read.
    pub(crate) generation: u64,
    /// One reply for each hold of the request, in their order.
    pub(crate) replies: Result<SmallVec<[AcquireReply; 1]>, StoreError>,
}

impl RequestReply {
    /// The reply to one of the holds of the request.
    pub(crate) fn get(&self, at: usize) -> Result<AcquireReply, StoreError> {
        let reply = self.replies.as_ref().map_err(Clone::clone)?.get(at);
        reply
            .copied()
            .ok_or_else(|| unanswered("no reply for this reader"))
    }
}

/// The reason why a waiter does not get the lock.
#[derive(Clone, Debug)]
pub(crate) enum Denied {
    /// Another hold has the lock, and the caller does not want to wait.
    Busy,
    /// The store has rejected the request, or has not answered the only attempt.
    Failed(StoreError),
    /// The waiter had the lock for a while, and was not polled.
    PassedOver,
    /// No caller waits any more, because the queues are closed.
    Closed,
}

impl Denied {
    /// The reason before the first reply.
    pub(crate) fn unanswered() -> Self {
        Self::Failed(unanswered("no answer yet"))
    }

    /// Returns whether it makes sense to wait for the lock after an attempt that ended with this.
    pub(crate) fn may_retry(&self) -> bool {
        match self {
            Self::Busy | Self::PassedOver => true,
            Self::Closed => false,
            Self::Failed(error) => !error.is_denied(),
        }
    }

    /// The error of the caller. `None` if it must send another request.
    pub(crate) fn error(self, key: &LockKey) -> Option<LockError> {
        match self {
            Self::PassedOver => None,
            Self::Busy => Some(LockError::busy(key.name())),
            Self::Closed => Some(LockError::Closed),
            Self::Failed(error) => Some(Failure::Store(error).on(key.name())),
        }
    }
}

/// All failures are equal, because no state depends on their messages.
#[cfg(test)]
impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

#[cfg(test)]
impl Eq for Denied {}

#[cfg(test)]
impl std::hash::Hash for Denied {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
    }
}

/// The error of an acquire that may have been executed.
pub(crate) fn unanswered(cause: &'static str) -> StoreError {
    StoreError::new(
        "acquire",
        &Arc::from("the store"),
        FailureClass::OutcomeUnknown,
        cause,
    )
}
