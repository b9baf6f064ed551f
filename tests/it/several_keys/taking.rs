//! The locks that are acquired, re-entered, waited for and released.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    DEADLINE, Section, depths, eventually, in_memory, until_depths, until_waiting, within,
};
use reentry::__admin::Ids as _;
use reentry::{LockError, Locks};

in_memory!(
    bad_keys_are_a_mistake_that_takes_nothing,
    equal_keys_are_one_lock,
    the_locks_of_one_acquisition_have_one_hold_and_new_tokens,
    lock_all_re_enters_the_locks_that_are_held,
    one_busy_key_leaves_the_others_free,
    lock_all_waits_for_a_busy_key_with_the_keys_before_it,
    a_spawned_task_keeps_all_of_them,
    a_guard_shows_its_locks,
    callers_in_this_process_are_not_overtaken,
);

/// The keys in the order in which they are acquired.
const KEYS: [&str; 3] = ["b", "c", "a"];

/// The keys among these that are held by any holder.
async fn held(locks: &Locks) -> Vec<&'static str> {
    let mut held = Vec::new();
    for key in KEYS {
        if !depths(locks, key).await.is_empty() {
            held.push(key);
        }
    }
    held
}

async fn equal_keys_are_one_lock(locks: Locks) {
    for (keys, count) in [
        (&["a", "b", "a", "a"][..], 2),
        (&["a", "a"], 1),
        (&["a"], 1),
    ] {
        let guard = locks.lock_all(keys).await.unwrap();
        assert_eq!(guard.all().len(), count);
        assert_eq!(depths(&locks, "a").await, [1]);
        let other = locks.lock_all(["a", "a"]).try_acquire().await.unwrap();
        assert!(other.is_none());
        guard.release().await.unwrap();
        assert!(held(&locks).await.is_empty());
    }
}

async fn the_locks_of_one_acquisition_have_one_hold_and_new_tokens(locks: Locks) {
    let single = locks.lock("a").await.unwrap();
    let before = single.held().fencing_token();
    single.release().await.unwrap();
    let guard = locks.lock_all(["a", "b", "c"]).await.unwrap();
    let first = guard.held();
    for held in guard.all() {
        assert_eq!(held.hold_id(), first.hold_id());
    }
    let a = guard.all().iter().find(|held| held.key() == "a").unwrap();
    assert!(a.fencing_token() > before);
}

async fn lock_all_re_enters_the_locks_that_are_held(locks: Locks) {
    let nested = async {
        let inner = locks.lock_all(["a", "b", "c"]).run(async {
            for (key, depth) in [("a", 1), ("b", 2), ("c", 1)] {
                until_depths(&locks, key, &[depth]).await;
            }
            let owners = KEYS.map(|key| reentry::held(key).unwrap().owner());
            assert!(owners.iter().all(|owner| *owner == owners[0]));
        });
        inner.await.unwrap();
        held(&locks).await
    };
    assert_eq!(locks.with_lock("b", nested).await.unwrap(), ["b"]);
}

async fn bad_keys_are_a_mistake_that_takes_nothing(locks: Locks) {
    let error = locks.lock_all(Vec::<String>::new()).await.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error}");
    let error = locks.lock_all(["a", ""]).await.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error}");
    assert!(held(&locks).await.is_empty());
}

async fn one_busy_key_leaves_the_others_free(locks: Locks) {
    for busy in KEYS {
        let elsewhere = locks.lock(busy).await.unwrap();
        assert!(locks.lock_all(KEYS).try_acquire().await.unwrap().is_none());
        for wait in [Duration::ZERO, Duration::from_millis(50)] {
            let error = locks.lock_all(KEYS).wait(wait).await.unwrap_err();
            assert!(error.is_busy() && error.key() == Some(busy), "{error}");
            let freed = async || held(&locks).await == [busy];
            eventually(DEADLINE, "the others are free", freed).await;
        }
        elsewhere.release().await.unwrap();
    }
    assert!(locks.lock_all(KEYS).try_acquire().await.unwrap().is_some());
}

async fn lock_all_waits_for_a_busy_key_with_the_keys_before_it(locks: Locks) {
    for (at, busy) in KEYS.into_iter().enumerate() {
        let elsewhere = locks.lock(busy).await.unwrap();
        let waiting = tokio::spawn(locks.lock_all(KEYS).run(async {}));
        until_waiting(&locks, busy, 1).await;
        assert_eq!(held(&locks).await, KEYS[..=at], "{busy}");
        elsewhere.release().await.unwrap();
        within(DEADLINE, "it enters", waiting)
            .await
            .unwrap()
            .unwrap();
        assert!(held(&locks).await.is_empty());
    }
}

async fn a_spawned_task_keeps_all_of_them(locks: Locks) {
    let (end, has_ended) = tokio::sync::oneshot::channel::<()>();
    let task = locks.lock_all(KEYS).run(async {
        let task = reentry::spawn(async move {
            has_ended.await.unwrap();
            KEYS.map(|key| reentry::held(key).is_some_and(|held| !held.is_lost()))
        });
        (task,)
    });
    let (task,) = task.await.unwrap();
    assert_eq!(held(&locks).await, KEYS);
    end.send(()).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), [true; 3]);
    assert!(held(&locks).await.is_empty());
}

async fn a_guard_shows_its_locks(locks: Locks) {
    let guard = locks.lock_all(KEYS).acquire().await.unwrap();
    let depth = guard.scope(async {
        let _nested = locks.lock("a").await?;
        let first = guard.all().iter().find(|held| held.key() == "a");
        Ok::<_, LockError>(first.map(|held| held.depth()))
    });
    assert_eq!(depth.await.unwrap().unwrap(), Some(2));
    let one = async || depths(&locks, "a").await == [1];
    eventually(DEADLINE, "the nested entry is left", one).await;
    let keys: Vec<_> = guard
        .all()
        .iter()
        .map(|held| held.key().to_owned())
        .collect();
    assert_eq!(keys, KEYS);
    drop(guard);
    let freed = async || held(&locks).await.is_empty();
    eventually(DEADLINE, "all are free", freed).await;
}

/// A lock that is free, and that a caller of this process waits for, is not acquired before that caller.
async fn callers_in_this_process_are_not_overtaken(locks: Locks) {
    let holder = locks.lock("a").await.unwrap();
    let section = Arc::new(Section::default());
    let visited = Arc::clone(&section);
    let first = locks.with_lock("a", async move { visited.visit().await });
    let first = tokio::spawn(first);
    until_waiting(&locks, "a", 1).await;
    let both = || locks.lock_all(["b", "a"]);
    assert!(both().try_acquire().await.unwrap().is_none());
    let visited = Arc::clone(&section);
    let second = tokio::spawn(both().run(async move { visited.visits() }));
    until_waiting(&locks, "a", 2).await;
    holder.release().await.unwrap();
    let first = within(DEADLINE, "the first enters", first).await;
    first.unwrap().unwrap();
    let second = within(DEADLINE, "the second enters", second).await;
    assert_eq!(second.unwrap().unwrap(), 1);
}
