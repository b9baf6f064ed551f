//! What a waiter's attempt at the lock is, and what it may come to.

use std::{pin::Pin, time::Duration};

use futures_util::future::Shared;
use tokio::time::Instant;

use super::Entering;
use crate::{
    error::StoreError,
    store::{Moved, Tokens},
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
}

impl Won {
    pub(super) fn moved(moved: &Moved, start: Instant) -> Self {
        Self {
            tokens: moved.tokens,
            sent: start,
            lease: moved.lease,
            how: Entering::Afresh,
        }
    }
}
