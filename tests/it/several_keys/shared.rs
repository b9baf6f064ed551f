//! Several locks that are shared: each as a single reader has it, and all of them or none.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use crate::support::{
    DEADLINE, RedisServer, Rig, connect, depths, eventually, on_both_stores, within,
};
use reentry::{LockError, Locks, LostReason, Mode};
use tokio::task::JoinSet;

const KEYS: [&str; 3] = ["a", "b", "c"];

on_both_stores!(
    readers_of_several_keys_are_inside_together,
    a_writer_of_one_key_keeps_them_out_of_all,
    what_an_enclosing_call_has_is_re_entered_as_it_is,
    a_write_under_them_is_refused_at_once,
    readers_see_what_writers_of_several_keys_have_left,
);

async fn readers_of_several_keys_are_inside_together(locks: Locks) {
    let one = locks.lock_all(KEYS).shared().await.unwrap();
    let other = locks.lock_all(["c", "b"]).shared().no_wait().await.unwrap();
    assert!(one.iter().all(|held| held.mode() == Mode::Shared));
    assert_eq!(depths(&locks, "b").await, [1, 1]);
    for key in KEYS {
        let write = locks.lock(key).no_wait().await.unwrap_err();
        assert!(matches!(write, LockError::Busy { .. }), "{write}");
    }
    one.release().await.unwrap();
    let writer = locks.lock("a").no_wait().await.unwrap();
    writer.release().await.unwrap();
    other.release().await.unwrap();
    let all = locks.lock_all(KEYS).try_acquire().await.unwrap();
    assert!(all.is_some());
}

async fn a_writer_of_one_key_keeps_them_out_of_all(locks: Locks) {
    let writer = locks.lock("b").await.unwrap();
    let read = locks.lock_all(KEYS).shared().no_wait().await.unwrap_err();
    assert!(
        matches!(&read, LockError::Busy { key, .. } if key == "b"),
        "{read}"
    );
    let free = async || {
        let writers = locks.lock_all(["a", "c"]).try_acquire().await.unwrap();
        writers.is_some()
    };
    eventually(DEADLINE, "what they had got is given back", free).await;
    let read = tokio::spawn(locks.lock_all(KEYS).shared().run(async {}));
    let waits = async || locks.inspect("b").await.unwrap().unwrap().waiters == 1;
    eventually(DEADLINE, "they wait for it", waits).await;
    writer.release().await.unwrap();
    within(DEADLINE, "they enter", read).await.unwrap().unwrap();
}

async fn what_an_enclosing_call_has_is_re_entered_as_it_is(locks: Locks) {
    let modes = async {
        let guard = locks.lock_all(KEYS).shared().await.unwrap();
        let modes = KEYS.map(|key| guard.held(key).unwrap().mode());
        guard.release().await.unwrap();
        modes
    };
    let modes = locks.with_lock("b", modes).await.unwrap();
    assert_eq!(modes, [Mode::Shared, Mode::Exclusive, Mode::Shared]);
}

async fn a_write_under_them_is_refused_at_once(locks: Locks) {
    let inside = async {
        let write = locks.lock_all(["b", "d"]).run(async {}).await;
        assert!(
            matches!(&write, Err(LockError::Upgrade { key, .. }) if key == "b"),
            "{write:?}"
        );
        locks.lock_all(KEYS).shared().run(async {}).await.unwrap();
    };
    let inside = locks.lock_all(KEYS).shared().run(inside);
    inside.await.unwrap();
    assert!(locks.inspect("d").await.unwrap().is_none());
}

async fn readers_see_what_writers_of_several_keys_have_left(locks: Locks) {
    let accounts = Arc::new([100, 100, 100].map(AtomicI64::new));
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let (locks, accounts) = (locks.clone(), Arc::clone(&accounts));
        tasks.spawn(async move {
            for round in 0..50 {
                let (from, to) = ((task + round) % 3, (task + round + 1) % 3);
                let transfer = async {
                    accounts[from].fetch_sub(1, SeqCst);
                    tokio::task::yield_now().await;
                    accounts[to].fetch_add(1, SeqCst);
                };
                let keys = [KEYS[from], KEYS[to]];
                locks.lock_all(keys).run(transfer).await.unwrap();
                let sum = async {
                    let sum: i64 = accounts.iter().map(|it| it.load(SeqCst)).sum();
                    tokio::task::yield_now().await;
                    sum
                };
                let sum = locks.lock_all(KEYS).shared().run(sum).await.unwrap();
                assert_eq!(sum, 300);
            }
        });
    }
    within(DEADLINE, "all come to their end", tasks.join_all()).await;
}

/// Two for each key, as for a single reader.
#[tokio::test]
async fn each_key_costs_two_evalsha() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    locks.lock_all(KEYS).shared().run(async {}).await.unwrap();
    let before = server.commandstats().await;
    locks.lock_all(KEYS).shared().run(async {}).await.unwrap();
    let calls = server.calls_since(&before).await;
    assert_eq!(calls.get("evalsha"), Some(&6));
    assert_eq!(server.ask("DBSIZE").await, "0");
}

/// They are due at once when the connection was lost.
#[tokio::test]
async fn each_of_them_keeps_a_lease_of_its_own() {
    let rig = Rig::start().await;
    let guard = rig.locks.lock_all(KEYS).shared().await.unwrap();
    let before = rig.server.commandstats().await;
    rig.cut().await;
    let called = async |name: &str| {
        let calls = rig.server.calls_since(&before).await;
        calls.get(name).copied().unwrap_or_default()
    };
    let kept = async || called("zadd").await >= 3;
    eventually(DEADLINE, "they are renewed", kept).await;
    assert_eq!(called("evalsha").await, called("zadd").await);
    assert!(guard.iter().all(|held| !held.is_lost()));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_loss_of_one_is_the_loss_of_all() {
    let rig = Rig::start().await;
    let body = async {
        rig.server.ask("DEL b").await;
        rig.cut().await;
        pending::<()>().await;
    };
    let aborted = rig.locks.lock_all(KEYS).shared().run(body);
    let error = within(DEADLINE, "the loss is noticed", aborted).await;
    let error = error.unwrap_err();
    let LockError::Lost { key, reason, .. } = &error else {
        panic!("not a loss, but {error:?}");
    };
    assert_eq!((&**key, *reason), ("b", LostReason::Gone));
    let free = async || rig.locks.lock_all(KEYS).try_acquire().await.unwrap();
    let free = async || free().await.is_some();
    eventually(DEADLINE, "the others are free", free).await;
}
