//! A writer that continues as a reader.

use std::time::Duration;

use crate::support::sweep::poll_times;
use crate::support::{DEADLINE, depths, eventually, on_both_stores, until_depths, until_waiting};
use reentry::__admin::Ids as _;
use reentry::{FutureExt, LockError, Locks, held};
use tokio::task::JoinSet;

/// Longer than the lease of a lock by default.
const LONG: Duration = Duration::from_secs(120);

on_both_stores!(
    a_downgrade_lets_readers_in_and_keeps_writers_out,
    readers_of_the_process_who_wait_enter,
    nested_calls_and_spawned_work_are_in_the_way,
    a_nested_call_that_has_ended_is_not_in_the_way,
    nothing_is_exclusive_under_a_downgraded_lock,
    a_hold_that_has_ended_cannot_be_downgraded,
    a_downgrade_goes_on_when_it_is_dropped,
);

async fn a_downgrade_lets_readers_in_and_keeps_writers_out(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let token = guard.held().fencing_token();
    // A shared lock is already downgraded.
    for _ in 0..2 {
        guard.held().downgrade().await.unwrap();
        assert!(guard.held().is_shared());
    }
    assert_eq!(depths(&locks, "key").await, [1]);
    let reader = locks.lock("key").read().no_wait().await.unwrap();
    for guard in [&guard, &reader] {
        assert_eq!(guard.held().fencing_token(), token);
    }
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn readers_of_the_process_who_wait_enter(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..3 {
        let request = locks.lock("key").read();
        tasks.spawn(async move { request.run(async {}).await });
        until_waiting(&locks, "key", n + 1).await;
    }
    guard.held().downgrade().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(depths(&locks, "key").await, [1]);
    guard.release().await.unwrap();
}

async fn nested_calls_and_spawned_work_are_in_the_way(locks: Locks) {
    let in_use = |outcome| matches!(outcome, Err(LockError::Misuse { .. }));
    let guard = locks.lock("key").await.unwrap();
    let nested = guard
        .scope(locks.lock("key").acquire())
        .await
        .unwrap()
        .unwrap();
    assert!(in_use(guard.held().downgrade().await));
    nested.release().await.unwrap();
    let spawned = async { [async {}.in_current_call()] };
    let [work] = guard.scope(spawned).await.unwrap();
    assert!(in_use(guard.held().downgrade().await));
    assert!(!guard.held().is_shared());
    assert!(
        locks
            .lock("key")
            .read()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    work.await.unwrap();
    guard.held().downgrade().await.unwrap();
    guard.release().await.unwrap();
}

/// The store does not know of its end yet.
async fn a_nested_call_that_has_ended_is_not_in_the_way(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let nested = guard.scope(locks.lock("key").ttl(LONG).acquire());
    nested.await.unwrap().unwrap().release().await.unwrap();
    guard.held().downgrade().await.unwrap();
    let reader = locks.lock("key").read().no_wait().await.unwrap();
    until_depths(&locks, "key", &[1, 1]).await;
    reader.release().await.unwrap();
    guard.release().await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn nothing_is_exclusive_under_a_downgraded_lock(locks: Locks) {
    let body = async {
        held("key").unwrap().downgrade().await.unwrap();
        let write = locks.with_lock("key", async {}).await;
        assert!(matches!(write, Err(LockError::Misuse { .. })), "{write:?}");
        locks.lock("key").read().run(async {}).await.unwrap();
        until_depths(&locks, "key", &[1]).await;
    };
    locks.with_lock("key", body).await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn a_hold_that_has_ended_cannot_be_downgraded(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let held = guard.held().clone();
    guard.release().await.unwrap();
    assert!(held.downgrade().await.is_err_and(|error| error.is_lost()));
    let guard = locks.lock("key").await.unwrap();
    assert!(locks.force_release("key").await.unwrap());
    let lost = guard.held().downgrade().await;
    assert!(lost.is_err_and(|error| error.is_lost()));
}

async fn a_downgrade_goes_on_when_it_is_dropped(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let held = guard.held().clone();
    drop(poll_times(1, held.downgrade()).await);
    let shared = async || {
        let reader = locks.lock("key").read().try_acquire().await.unwrap();
        reader.is_some()
    };
    eventually(DEADLINE, "readers enter", shared).await;
    guard.release().await.unwrap();
}

/// The store does not know the second token when the lock becomes shared.
#[tokio::test(start_paused = true)]
async fn a_downgrade_after_a_hand_off_in_memory_brings_the_later_token() {
    let locks = Locks::builder("memory:");
    let locks = locks.build().await.unwrap();
    let first = locks.lock("key").await.unwrap();
    let before = first.held().clone();
    let second = tokio::spawn(locks.lock("key").acquire());
    // This is long enough for a token of its own.
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.held().hold_id(), before.hold_id());
    let token = second.held().fencing_token();
    assert!(token > before.fencing_token());
    second.held().downgrade().await.unwrap();
    let reader = locks.lock("key").read().await.unwrap();
    assert_eq!(reader.held().fencing_token(), token);
}
