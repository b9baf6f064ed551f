//! What a waiter does at the moments that are hard to meet from outside.

use super::*;
use crate::{
    LockError,
    base::{
        id::{FencingToken, Owner},
        options::Queueing,
    },
    store::{StoreTime, Tokens, memory::MemoryStore},
};

/// A waiter, and the queue it asks through.
fn waiting() -> Result<(Arc<Queue>, Arc<Waiter>), LockError> {
    let queue = Queue::new(Arc::new(MemoryStore::new()), Queueing::default());
    let ttl = Duration::from_secs(30);
    let claim = AcquireRequest {
        hold: Owner::new().next_hold(),
        ttl,
        tokens: 1,
        entry: queue.entry(ttl),
    };
    let key = LockKey::new("", "order:42")?;
    Ok((queue, Waiter::new(key, claim, Handle::current(), false)))
}

/// The driver may turn to a waiter at the moment at which it leaves. A request made then would be
/// answered to nobody, and its lock stand for a whole lease.
#[tokio::test]
async fn nothing_is_asked_for_a_waiter_that_has_left() -> Result<(), LockError> {
    let (queue, waiter) = waiting()?;
    waiter.undo(&queue);
    assert!(waiter.attempt(&queue).is_none());
    Ok(())
}

#[tokio::test]
async fn an_attempt_in_flight_outlives_its_waiter() -> Result<(), LockError> {
    let (queue, waiter) = waiting()?;
    assert!(waiter.attempt(&queue).is_some());
    waiter.undo(&queue);
    assert!(waiter.attempt(&queue).is_some());
    Ok(())
}

/// The server's time in all answers and messages here.
const NOW: StoreTime = StoreTime { micros: 1_000_000 };

const BUSY: AcquireReply = AcquireReply::Busy {
    remaining: None,
    now: NOW,
};

fn moved_to(waiter: &Waiter) -> HandoffMessage {
    HandoffMessage {
        key: "order:42".to_owned(),
        hold: waiter.hold(),
        tokens: Tokens {
            first: FencingToken(1),
            count: 1,
        },
        at: NOW,
        lease: Duration::from_secs(30),
    }
}

/// The news may come on another thread, after the answer was read and before it was dealt with.
#[tokio::test]
async fn news_that_come_while_an_answer_is_dealt_with_are_not_lost() -> Result<(), LockError> {
    let (queue, waiter) = waiting()?;
    queue.join(&waiter);
    let epoch = queue.store().connection_epoch();
    let outcome = waiter.learn(Instant::now(), epoch, epoch, BUSY, Entering::Afresh);
    let answered: Pin<Box<dyn Future<Output = Outcome> + Send>> =
        Box::pin(std::future::ready(outcome));
    let attempt = waiter.follow(|| answered.shared()).ok();
    let moved = moved_to(&waiter);
    let token = moved.tokens.first;
    waiter.told(&queue, moved);
    assert!(waiter.take_answer().is_none());
    if let Some(attempt) = attempt {
        waiter.settle(&queue, &attempt);
    }
    let grant = waiter.take_answer().and_then(Result::ok);
    assert_eq!(grant.map(|grant| grant.tokens.first), Some(token));
    Ok(())
}

/// A connection was made while the request was under way: the times in the answer and in the news may be
/// those of two servers.
#[tokio::test]
async fn news_from_another_epoch_than_the_request_let_nobody_in() -> Result<(), LockError> {
    for (present, enters) in [(0, true), (1, false)] {
        let (queue, waiter) = waiting()?;
        queue.join(&waiter);
        let awaited = waiter.follow(|| {
            let never: Pin<Box<dyn Future<Output = Outcome> + Send>> =
                Box::pin(std::future::pending());
            never.shared()
        });
        assert!(awaited.is_ok());
        waiter.told(&queue, moved_to(&waiter));
        let outcome = waiter.learn(Instant::now(), 0, present, BUSY, Entering::Afresh);
        assert_eq!(matches!(outcome, Outcome::Held(_)), enters, "{outcome:?}");
    }
    Ok(())
}
