//! P2, P3: work that leaves the task, for example by `in_current_call`, belongs to the call graph of the code that
//! spawned it, and keeps its locks.

#![allow(
    clippy::async_yields_async,
    reason = "a body that leaves a task behind is what these are about"
)]

use crate::support::{depths, in_memory, until_depths, until_free};
use reentry::__admin::{Ids as _, current_owner};
use reentry::{FutureExt, LockError, Locks, held};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const KEY: &str = "order:42";

in_memory!(
    a_child_is_inside_the_lock_of_its_parent,
    a_child_that_ends_last_releases_the_lock,
    a_grandchild_keeps_the_lock_of_those_that_have_gone,
    a_child_keeps_every_lock_around_it,
    a_child_counts_from_the_call_and_not_from_its_first_poll,
    blocking_work_is_inside_and_re_enters,
    in_current_call_without_a_lock_changes_nothing,
    a_child_keeps_its_own_chain_inside_another_lock,
    a_child_in_the_same_task_leaves_its_parents_chain_alone,
);

/// A task below the lock that waits for a signal, and then runs `then`.
fn child<T: Send + 'static>(
    then: impl Future<Output = T> + Send + 'static,
) -> (JoinHandle<Result<T, LockError>>, oneshot::Sender<()>) {
    let (go_on, may_go_on) = oneshot::channel();
    let task = reentry::spawn(async move {
        may_go_on.await.unwrap();
        then.await
    });
    (task, go_on)
}

async fn is_free(locks: &Locks, key: &str) -> bool {
    locks.admin().inspect(key).await.unwrap().is_none()
}

async fn a_child_is_inside_the_lock_of_its_parent(locks: Locks) {
    let nested = locks.clone();
    let body = async {
        let hold = held(KEY).unwrap().hold_id();
        let task = async move {
            assert_eq!(held(KEY).unwrap().hold_id(), hold);
            assert_eq!(held(KEY).unwrap().depth(), 1);
            assert_eq!(depths(&nested, KEY).await, [1]);
            let inner = until_depths(&nested, KEY, &[2]);
            nested.with_lock(KEY, inner).await.unwrap();
        };
        reentry::spawn(task).await.unwrap().unwrap();
        until_depths(&locks, KEY, &[1]).await;
    };
    locks.with_lock(KEY, body).await.unwrap();
    assert!(is_free(&locks, KEY).await);
}

async fn a_child_that_ends_last_releases_the_lock(locks: Locks) {
    let body = async { child(async {}) };
    let (task, go_on) = locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(depths(&locks, KEY).await, [1]);
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    go_on.send(()).unwrap();
    task.await.unwrap().unwrap();
    assert!(is_free(&locks, KEY).await);
}

async fn a_grandchild_keeps_the_lock_of_those_that_have_gone(locks: Locks) {
    let nested = locks.clone();
    let body = async {
        let hold = held(KEY).unwrap().hold_id();
        let (parent, go_on) = child(async move {
            child(async move {
                assert_eq!(held(KEY).unwrap().hold_id(), hold);
                nested.with_lock(KEY, async {}).await.unwrap();
            })
        });
        go_on.send(()).unwrap();
        parent
    };
    let parent = locks.with_lock(KEY, body).await.unwrap();
    let (grandchild, go_on) = parent.await.unwrap().unwrap();
    until_depths(&locks, KEY, &[1]).await;
    go_on.send(()).unwrap();
    grandchild.await.unwrap().unwrap();
    assert!(is_free(&locks, KEY).await);
}

async fn a_child_keeps_every_lock_around_it(locks: Locks) {
    const KEYS: [&str; 3] = ["order:1", "order:2", "stock:7"];
    let elsewhere = Locks::in_memory();
    let stores = [&locks, &locks, &elsewhere];
    let [outer, middle, inner] = KEYS;
    let body = async { child(async { KEYS.map(|key| held(key).unwrap().depth()) }) };
    let body = locks.try_with_lock(outer, locks.with_lock(outer, body));
    let body = locks.try_with_lock(middle, elsewhere.with_lock(inner, body));
    let (task, go_on) = locks.try_with_lock(outer, body).await.unwrap().unwrap();
    for (locks, key) in stores.iter().zip(KEYS) {
        until_depths(locks, key, &[1]).await;
    }
    go_on.send(()).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), [1, 1, 1]);
    for (locks, key) in stores.iter().zip(KEYS) {
        assert!(is_free(locks, key).await);
    }
}

async fn a_child_counts_from_the_call_and_not_from_its_first_poll(locks: Locks) {
    let body = async { async { held(KEY).is_some() }.in_current_call() };
    let unpolled = locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(depths(&locks, KEY).await, [1]);
    assert!(unpolled.await.unwrap());
    assert!(is_free(&locks, KEY).await);
    let body = async { async {}.in_current_call() };
    let unpolled = locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(depths(&locks, KEY).await, [1]);
    drop(unpolled);
    until_free(&locks, KEY).await;
}

async fn blocking_work_is_inside_and_re_enters(locks: Locks) {
    let nested = locks.clone();
    let body = async {
        let work = move || {
            let inner = async { (held(KEY).unwrap().depth(), current_owner()) };
            let inner = Handle::current().block_on(nested.with_lock(KEY, inner));
            let outer = (held(KEY).unwrap().depth(), current_owner());
            (inner.unwrap(), outer)
        };
        let owner = current_owner();
        let seen = reentry::spawn_blocking(work).await.unwrap().unwrap();
        assert_eq!(seen, ((2, owner), (1, owner)));
    };
    locks.with_lock(KEY, body).await.unwrap();
    assert!(is_free(&locks, KEY).await);
}

async fn in_current_call_without_a_lock_changes_nothing(locks: Locks) {
    let alone = async || (held(KEY).is_some(), current_owner());
    assert_eq!(alone().in_current_call().await.unwrap(), (false, None));
    let task = reentry::spawn(async { current_owner() });
    assert_eq!(task.await.unwrap().unwrap(), None);
    let work = reentry::spawn_blocking(current_owner);
    assert_eq!(work.await.unwrap().unwrap(), None);
    // It is enclosed by what encloses its poll.
    let made_before = async { held(KEY).is_some() }.in_current_call();
    assert!(locks.with_lock(KEY, made_before).await.unwrap().unwrap());
}

async fn a_child_keeps_its_own_chain_inside_another_lock(locks: Locks) {
    let seen = async {
        (
            current_owner(),
            held("order:1").is_some(),
            held("order:2").is_some(),
        )
    };
    let body = async { (current_owner(), seen.in_current_call()) };
    let (owner, child) = locks.with_lock("order:1", body).await.unwrap();
    let inside = async {
        let seen = child.await.unwrap();
        assert!(held("order:1").is_none() && held("order:2").is_some());
        assert_ne!(current_owner(), owner);
        seen
    };
    let seen = locks.with_lock("order:2", inside).await.unwrap();
    assert_eq!(seen, (owner, true, true));
    assert!(is_free(&locks, "order:1").await && is_free(&locks, "order:2").await);
}

async fn a_child_in_the_same_task_leaves_its_parents_chain_alone(locks: Locks) {
    let enter = async || {
        for _ in 0..3 {
            let inner = locks.with_lock(KEY, async { tokio::task::yield_now().await });
            inner.await.unwrap();
            assert!(held(KEY).is_some() && held("order:1").is_some());
        }
    };
    let body = async {
        let inner = async { tokio::join!(enter().in_current_call(), enter()).0.unwrap() };
        locks.with_lock(KEY, inner).await.unwrap();
        assert_eq!(held("order:1").unwrap().depth(), 1);
        assert!(held(KEY).is_none());
    };
    locks.with_lock("order:1", body).await.unwrap();
    assert!(is_free(&locks, KEY).await && is_free(&locks, "order:1").await);
}
