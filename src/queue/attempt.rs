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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::runtime::Handle;

    use super::*;
    use crate::{
        LockError,
        id::{FencingToken, Owner},
        key::LockKey,
        options::Queueing,
        queue::{Queue, waiter::Waiter},
        store::{Acquired, Claim, StoreTime, memory::MemoryStore},
    };

    /// The news may come on another thread, after the answer was read and before it was dealt with.
    #[tokio::test]
    async fn news_that_come_while_an_answer_is_dealt_with_are_not_lost() -> Result<(), LockError> {
        let queue = Queue::new(Arc::new(MemoryStore::new()), Queueing::default());
        let ttl = Duration::from_secs(30);
        let claim = Claim {
            hold: Owner::new().next_hold(),
            ttl,
            tokens: 1,
            standing: queue.standing(ttl),
        };
        let key = LockKey::new("", "order:42")?;
        let waiter = Waiter::new(key, claim, Handle::current());
        queue.join(&waiter);
        let now = StoreTime { micros: 1_000_000 };
        let busy = Acquired::Busy {
            remaining: None,
            now,
        };
        let epoch = queue.store().epoch();
        let outcome = waiter.learn(Instant::now(), epoch, busy, Entering::Afresh);
        let answered: Pin<Box<dyn Future<Output = Outcome> + Send>> =
            Box::pin(std::future::ready(outcome));
        let attempt = waiter.follow(|| answered.shared()).ok();
        let tokens = Tokens {
            first: FencingToken(1),
            count: 1,
        };
        let moved = Moved {
            key: "order:42".to_owned(),
            hold: claim.hold,
            tokens,
            at: now,
            lease: ttl,
        };
        waiter.told(&queue, moved);
        assert!(waiter.take_answer().is_none());
        if let Some(attempt) = attempt {
            waiter.settle(&queue, &attempt);
        }
        let grant = waiter.take_answer().and_then(Result::ok);
        assert_eq!(grant.map(|grant| grant.tokens.first), Some(tokens.first));
        Ok(())
    }
}
