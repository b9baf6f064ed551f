//! P2 for guards: a guard is a lock as a value. It re-enters what an enclosing call holds. Nested calls can enter only
//! through its scope.

use std::sync::Arc;

use crate::support::{DEADLINE, eventually, in_memory, until_depths, until_free};
use reentry::__admin::{Ids as _, current_owner};
use reentry::{LockError, Locks, held};

in_memory!(
    a_nested_guard_is_a_reentry,
    a_nested_guard_that_outlives_the_body_keeps_the_lock,
    a_scope_lets_nested_calls_in,
    calls_outside_the_scope_of_a_guard_do_not_re_enter,
    a_guard_moves_to_another_task,
    a_held_of_an_ended_hold_keeps_no_task_alive,
    a_try_after_a_dropped_guard_gets_the_lock,
);

async fn a_nested_guard_is_a_reentry(locks: Locks) {
    let body = async {
        let guard = locks.lock("key").no_wait().acquire().await.unwrap();
        assert_eq!(guard.held().depth(), 2);
        assert_eq!(guard.held().hold_id(), held("key").unwrap().hold_id());
        until_depths(&locks, "key", &[2]).await;
        let tried = locks.lock("key").try_acquire().await.unwrap().unwrap();
        until_depths(&locks, "key", &[3]).await;
        tried.release().await.unwrap();
        until_depths(&locks, "key", &[2]).await;
        guard.release().await.unwrap();
        until_depths(&locks, "key", &[1]).await;
    };
    locks.with_lock("key", body).await.unwrap();
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

async fn a_nested_guard_that_outlives_the_body_keeps_the_lock(locks: Locks) {
    let body = async { locks.lock("key").await.unwrap() };
    let guard = locks.with_lock("key", body).await.unwrap();
    until_depths(&locks, "key", &[1]).await;
    assert_eq!(guard.held().depth(), 1);
    let other = locks.lock("key").try_acquire().await.unwrap();
    assert!(other.is_none());
    guard.release().await.unwrap();
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

async fn a_scope_lets_nested_calls_in(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let body = async {
        assert_eq!(current_owner(), Some(guard.held().owner()));
        let nested = locks.lock("key").no_wait();
        nested.run(async { held("key").unwrap().depth() }).await
    };
    assert_eq!(guard.scope(body).await.unwrap().unwrap(), 2);
    guard.release().await.unwrap();
}

async fn calls_outside_the_scope_of_a_guard_do_not_re_enter(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    assert!(held("key").is_none());
    let refused = locks.lock("key").no_wait().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })));
    guard.scope(async {}).await.unwrap();
    assert!(held("key").is_none());
    guard.release().await.unwrap();
}

async fn a_guard_moves_to_another_task(locks: Locks) {
    let guard = Arc::new(locks.lock("key").await.unwrap());
    let there = tokio::spawn({
        let (locks, guard) = (locks.clone(), Arc::clone(&guard));
        async move {
            let nested = async { locks.lock("key").no_wait().run(async {}).await };
            guard.scope(nested).await.unwrap().unwrap();
        }
    });
    there.await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    until_free(&locks, "key").await;
}

/// It reports the past, and nothing else is left: no watchdog, no connection.
async fn a_held_of_an_ended_hold_keeps_no_task_alive(locks: Locks) {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let guard = locks.lock("key").await.unwrap();
    let held = guard.held().clone();
    assert_eq!(held.depth(), 1);
    guard.release().await.unwrap();
    drop(locks);
    eventually(DEADLINE, "no task", async || tasks() == 0).await;
    assert_eq!((held.key(), held.depth()), ("key", 0));
    assert!(held.remaining().is_zero() && !held.is_lost());
}

/// Its release is on its way.
async fn a_try_after_a_dropped_guard_gets_the_lock(locks: Locks) {
    for _ in 0..20 {
        drop(locks.lock("key").await.unwrap());
        drop(locks.lock("key").try_acquire().await.unwrap().unwrap());
        locks.lock("key").no_wait().run(async {}).await.unwrap();
        let body = async {
            drop(locks.lock("key").await.unwrap());
        };
        drop(locks.with_lock("key", body).await);
        let reader = locks.lock("key").read().try_acquire().await;
        drop(reader.unwrap().unwrap());
        let all = locks.lock_all(["a", "key"]);
        drop(all.clone().try_acquire().await.unwrap().unwrap());
        drop(all.try_acquire().await.unwrap().unwrap());
        let permit = || locks.semaphore("permits", 1).try_acquire();
        drop(permit().await.unwrap().unwrap());
        drop(permit().await.unwrap().unwrap());
    }
}
