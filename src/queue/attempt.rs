//! What a waiter's attempt at the lock is, and what it may come to.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::future::Shared;
use tokio::time::Instant;

use super::Entering;
use crate::{
    base::error::{Effect, StoreError},
    store::{HandoffMessage, Tokens},
};

/// A request in flight. Whoever polls it moves it on: its waiter, the driver, or the task that
/// undoes it after the waiter was dropped. It is never dropped before its answer.
pub(super) type Attempt = Shared<Pin<Box<dyn Future<Output = Outcome> + Send>>>;

/// What an attempt came to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Held(Won),
    Busy {
        remaining: Option<Duration>,
    },
    /// Nothing is known but that asking again makes sense.
    Unanswered,
    Failed(StoreError),
}

/// A lock that was won.
#[derive(Clone, Copy, Debug)]
pub(super) struct Won {
    pub(super) tokens: Tokens,
    /// From when on the lease counts.
    pub(super) sent: Instant,
    pub(super) lease: Duration,
    pub(super) how: Entering,
}

/// Why a waiter does not get the lock.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Busy,
    Late,
    Failed(StoreError),
    /// It had the lock for a while, and was not polled.
    PassedOver,
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

impl Heard {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Failure(_))
    }

    /// What kept a waiter from its lock if it was not another holder.
    pub(super) fn failure(self) -> Option<StoreError> {
        match self {
            Self::Nothing => Some(unanswered("no answer yet")),
            Self::Busy => None,
            Self::Failure(error) => Some(error),
        }
    }

    /// Why a waiter that asks only once does not get its lock.
    pub(super) fn refusal(self) -> Refusal {
        self.failure().map_or(Refusal::Busy, Refusal::Failed)
    }
}

/// The error of an acquire that may have been executed.
pub(super) fn unanswered(cause: &'static str) -> StoreError {
    StoreError::new("acquire", &Arc::from("the store"), Effect::Unknown, cause)
}

impl Won {
    pub(super) fn moved(moved: &HandoffMessage, start: Instant) -> Self {
        Self {
            tokens: moved.tokens,
            sent: start,
            lease: moved.lease,
            how: Entering::Afresh,
        }
    }
}
