//! P2: re-entry follows the call graph and not the task. The tests cover branches, spawned tasks, a `LocalSet`, futures
//! that move between tasks, and separately built `Locks`.

#![allow(
    clippy::async_yields_async,
    reason = "futures leave the body that they were begun in"
)]

use std::sync::Arc;

use crate::support::{
    DEADLINE, Section, depths, eventually, in_memory, until_depths, until_waiting,
};
use futures_util::FutureExt;
use reentry::__admin::{OwnerId, current_owner};
use reentry::{LockError, Locks, held};
use tokio::join;
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;

in_memory!(
    a_key_is_reentered_through_other_keys_in_between,
    sibling_branches_exclude_each_other,
    sibling_branches_below_another_key_exclude_each_other,
    a_spawned_task_inherits_nothing,
    a_local_set_inside_a_body_does_not_let_its_tasks_through,
    an_entered_future_moved_to_another_task_keeps_the_lock,
    an_ended_hold_in_the_chain_is_not_held,
    a_lock_of_the_same_name_elsewhere_is_another_lock,
);

async fn a_key_is_reentered_through_other_keys_in_between(locks: Locks) {
    let innermost = async {
        until_depths(&locks, "a", &[2]).await;
        assert_eq!(depths(&locks, "b").await, [1]);
        assert_eq!(held("a").unwrap().depth(), 2);
    };
    let middle = async { locks.with_lock("a", innermost).await.unwrap() };
    let outer = async { locks.with_lock("b", middle).await.unwrap() };
    locks.with_lock("a", outer).await.unwrap();
}

/// Runs three branches of one task that acquire the same key. Returns their owners.
async fn three_branches(locks: &Locks) -> [OwnerId; 3] {
    let section = Section::default();
    let branch = || async {
        let owner = locks.with_lock("key", async {
            section.visit().await;
            current_owner().unwrap()
        });
        owner.await.unwrap()
    };
    let (a, b, c) = join!(branch(), branch(), branch());
    assert_eq!(section.visits(), 3);
    [a, b, c]
}

/// No common ancestor holds the key.
async fn sibling_branches_exclude_each_other(locks: Locks) {
    let [a, b, c] = three_branches(&locks).await;
    assert!(a != b && b != c && a != c, "branches are call graphs apart");
}

/// The branches share an owner, and still exclude each other: an equal owner does not permit entry.
async fn sibling_branches_below_another_key_exclude_each_other(locks: Locks) {
    let branches = locks.with_lock("another key", three_branches(&locks));
    let [a, b, c] = branches.await.unwrap();
    assert!(a == b && b == c);
}

async fn a_spawned_task_inherits_nothing(locks: Locks) {
    let (done, is_done) = oneshot::channel();
    let body = async {
        let owner = current_owner().unwrap();
        let spawned = tokio::spawn({
            let locks = locks.clone();
            async move {
                assert!(held("key").is_none() && current_owner().is_none());
                let refused = locks.lock("key").no_wait().await;
                assert!(matches!(refused, Err(LockError::Busy { .. })));
                let mut done = Some(done);
                let body = async {
                    let done = done.take().unwrap();
                    done.send(current_owner().unwrap()).unwrap();
                };
                locks.with_lock("key", body).await.unwrap();
            }
        });
        until_waiting(&locks, "key", 1).await;
        (owner, spawned)
    };
    let (owner, spawned) = locks.with_lock("key", body).await.unwrap();
    assert_ne!(is_done.await.unwrap(), owner);
    spawned.await.unwrap();
}

/// Its tasks run on the holder's thread, below the holder's own poll, and still re-enter nothing. The future that the
/// caller runs with the set re-enters.
async fn a_local_set_inside_a_body_does_not_let_its_tasks_through(locks: Locks) {
    let local = LocalSet::new();
    let body = async {
        let task = local.spawn_local({
            let locks = locks.clone();
            async move {
                assert!(held("key").is_none());
                assert!(current_owner().is_none());
                let refused = locks.lock("key").no_wait().await;
                assert!(matches!(refused, Err(LockError::Busy { .. })));
                // A lock of the task itself begins a chain without the holder's lock.
                let mine = async { held("key").is_none() };
                assert!(locks.with_lock("mine", mine).await.unwrap());
            }
        });
        let own = async {
            assert!(held("key").is_some());
            locks.with_lock("key", task).await.unwrap()
        };
        local.run_until(own).await.unwrap();
        until_depths(&locks, "key", &[1]).await;
    };
    locks.with_lock("key", body).await.unwrap();
}

async fn an_entered_future_moved_to_another_task_keeps_the_lock(locks: Locks) {
    let (go_on, may_go_on) = oneshot::channel();
    let body = async {
        let inner = locks.clone();
        let mut nested = Box::pin(locks.with_lock("key", async move {
            may_go_on.await.unwrap();
            // It is still below the holder, wherever it is polled.
            inner.lock("key").no_wait().run(async {}).await.unwrap();
            held("key").unwrap().depth()
        }));
        let is_inside = async || {
            assert!((&mut nested).now_or_never().is_none());
            depths(&locks, "key").await == [2]
        };
        eventually(DEADLINE, "the nested body to run", is_inside).await;
        nested
    };
    let nested = locks.with_lock("key", body).await.unwrap();
    // The outermost body has ended, but the nested one has not.
    until_depths(&locks, "key", &[1]).await;
    let moved = tokio::spawn(nested);
    let refused = locks.lock("key").try_acquire().await.unwrap();
    assert!(refused.is_none());
    go_on.send(()).unwrap();
    assert_eq!(moved.await.unwrap().unwrap(), 1);
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

/// A future that was moved out has the chain of a hold that has ended since. That hold is neither held nor re-entered,
/// and blocks nothing.
async fn an_ended_hold_in_the_chain_is_not_held(locks: Locks) {
    let (go_on, may_go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = async {
        let inner = locks.clone();
        let (inside, wait) = (Arc::clone(&go_on), Arc::clone(&may_go_on));
        let nested = locks.with_lock("inner", async move {
            inside.notify_one();
            wait.notified().await;
            assert!(held("outer").is_none(), "an ended hold shows as held");
            let again = inner.lock("outer");
            let depth = again.run(async { held("outer").unwrap().depth() });
            assert_eq!(depth.await.unwrap(), 1);
        });
        let mut nested = Box::pin(nested);
        tokio::select! {
            () = go_on.notified() => nested,
            _ = &mut nested => unreachable!("it waits"),
        }
    };
    let nested = locks.with_lock("outer", body).await.unwrap();
    assert!(locks.admin().inspect("outer").await.unwrap().is_none());
    may_go_on.notify_one();
    nested.await.unwrap();
}

async fn a_lock_of_the_same_name_elsewhere_is_another_lock(locks: Locks) {
    let elsewhere = Locks::in_memory();
    let body = async {
        let outer = held("key").unwrap();
        let inner = async {
            let innermost = held("key").unwrap();
            assert_ne!(innermost.fencing_token(), outer.fencing_token());
            // Each is re-entered through its own `Locks`.
            let depth = locks.with_lock("key", async { outer.depth() });
            assert_eq!((depth.await.unwrap(), innermost.depth()), (2, 1));
        };
        elsewhere.with_lock("key", inner).await.unwrap();
    };
    locks.with_lock("key", body).await.unwrap();
}
