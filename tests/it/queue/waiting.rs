//! Waiting inside one process: first come first served, `wait`, `no_wait`, `try_acquire`.

use std::pin::Pin;
use std::time::Duration;

use crate::support::{DEADLINE, eventually, in_memory, waiters};
use futures_util::FutureExt;
use reentry::{LockError, Locks};
use tokio::time::Instant;

in_memory!(
    no_wait_returns_busy_immediately,
    no_wait_does_not_overtake_a_waiter,
    a_free_lock_is_not_refused_because_a_waiter_has_left_its_queue,
    a_wait_of_zero_makes_one_attempt,
);

/// A waiter that is polled by hand, and waits.
async fn waiting(locks: &Locks) -> Pin<Box<impl Future<Output = Result<(), LockError>> + use<>>> {
    let mut waiter = Box::pin(locks.with_lock("key", async {}));
    let waits = async || {
        assert!((&mut waiter).now_or_never().is_none());
        waiters(locks, "key").await == Some(1)
    };
    eventually(DEADLINE, "the waiter", waits).await;
    waiter
}

async fn no_wait_returns_busy_immediately(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let busy = locks.lock("key").no_wait().await.unwrap_err();
    assert!(busy.is_busy() && !busy.is_lost());
    assert_eq!(busy.key(), Some("key"));
    let run = locks.lock("key").no_wait();
    let run: Result<(), _> = run.run(async { unreachable!("entered") }).await;
    assert!(matches!(run, Err(LockError::Busy { .. })));
    // This is so whatever it says about waiting.
    let tried = locks.lock("key").wait(Duration::MAX).try_acquire().await;
    assert!(tried.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_some());
}

/// The lock is free for a moment, but a waiter is in the queue for it.
async fn no_wait_does_not_overtake_a_waiter(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let waiter = waiting(&locks).await;
    guard.release().await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    assert!(locks.lock("key").no_wait().await.unwrap_err().is_busy());
    waiter.await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_some());
}

async fn a_free_lock_is_not_refused_because_a_waiter_has_left_its_queue(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let waiter = waiting(&locks).await;
    drop(guard);
    drop(waiter);
    // What the waiter is granted in the meantime is released.
    let is_given = async || locks.lock("key").try_acquire().await.unwrap().is_some();
    eventually(DEADLINE, "a free lock", is_given).await;
}

async fn a_wait_of_zero_makes_one_attempt(locks: Locks) {
    let guard = locks.lock("key").wait(Duration::ZERO).await.unwrap();
    let error = locks.lock("key").wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_default_wait_is_a_minute() {
    let locks = Locks::in_memory();
    let _guard = locks.lock("key").await.unwrap();
    let start = Instant::now();
    let error = locks.lock("key").await.unwrap_err();
    assert!(error.is_busy());
    let minute = Duration::from_secs(60);
    assert!((minute..minute + Duration::from_millis(10)).contains(&start.elapsed()));
}
