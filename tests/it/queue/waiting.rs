//! Waiting inside one process: first come first served, `wait`, `no_wait`, `try_acquire`.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{DEADLINE, eventually, in_memory, until_waiting, waiters};
use futures_util::FutureExt;
use reentry::{LockError, Locks};
use tokio::task::JoinSet;
use tokio::time::Instant;

in_memory!(
    a_waiter_that_gives_up_does_not_delay_the_others,
    no_wait_returns_busy_immediately,
    no_wait_does_not_overtake_a_waiter,
    a_free_lock_is_not_refused_because_a_waiter_has_left_its_queue,
    a_wait_that_ends_says_how_long_it_was,
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

/// Joins the queue of `key` when `count` callers already wait there, and reports when its turn comes.
async fn line_up(
    locks: &Locks,
    count: usize,
    served: &Arc<Mutex<Vec<usize>>>,
    tasks: &mut JoinSet<()>,
) {
    let (task_locks, served) = (locks.clone(), Arc::clone(served));
    tasks.spawn(async move {
        let body = async { served.lock().unwrap().push(count) };
        task_locks.with_lock("key", body).await.unwrap();
    });
    until_waiting(locks, "key", count + 1).await;
}

/// The first, one in the middle and the last give up. The order of the others does not change.
async fn a_waiter_that_gives_up_does_not_delay_the_others(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let (served, mut tasks) = (Arc::default(), JoinSet::new());
    let mut leavers = Vec::new();
    for count in 0..9 {
        if count % 4 == 0 {
            leavers.push(tokio::spawn(
                locks.with_lock("key", async { unreachable!("left") }),
            ));
            until_waiting(&locks, "key", count + 1).await;
        } else {
            line_up(&locks, count, &served, &mut tasks).await;
        }
    }
    for leaver in leavers {
        leaver.abort();
        let ended: Result<Result<(), _>, _> = leaver.await;
        assert!(ended.unwrap_err().is_cancelled());
    }
    assert_eq!(waiters(&locks, "key").await, Some(6));
    guard.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(*served.lock().unwrap(), [1, 2, 3, 5, 6, 7]);
}

async fn no_wait_returns_busy_immediately(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let busy = locks.lock("key").no_wait().await.unwrap_err();
    assert!(matches!(&busy, LockError::Busy { key, .. } if key == "key"));
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

async fn a_wait_that_ends_says_how_long_it_was(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let (start, wait) = (Instant::now(), Duration::from_millis(300));
    let error = locks.lock("key").wait(wait).await.unwrap_err();
    let elapsed = start.elapsed();
    let LockError::Busy { key, waited, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(key, "key");
    assert!(
        (wait..=elapsed).contains(waited),
        "{waited:?} of {elapsed:?}"
    );
    assert!(error.source().is_none());
    assert!(error.is_busy() && !error.is_lost());
    assert_eq!(error.key(), Some("key"));
    // It has left the queue.
    assert_eq!(waiters(&locks, "key").await, Some(0));
    guard.release().await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_some());
}

async fn a_wait_of_zero_makes_one_attempt(locks: Locks) {
    let guard = locks.lock("key").wait(Duration::ZERO).await.unwrap();
    let error = locks.lock("key").wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }));
    guard.release().await.unwrap();
}

/// The default is 60 s, which is longer than the lease of a dead holder.
#[tokio::test(start_paused = true)]
async fn waiters_outlive_the_lease_of_a_holder_that_died() {
    let locks = Locks::in_memory();
    let ttl = Duration::from_secs(30);
    let _never_renewed = locks.lock("key").max_hold(ttl).await.unwrap();
    let start = Instant::now();
    locks.with_lock("key", async {}).await.unwrap();
    assert!((ttl..ttl + Duration::from_millis(10)).contains(&start.elapsed()));
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
