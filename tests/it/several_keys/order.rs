//! Locks are taken in one order, and no waiter is overtaken.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    DEADLINE, RedisServer, Section, connect, eventually, on_both_stores, processes, unhurried,
    waiters, within,
};
use reentry::{HandOff, Locks};
use tokio::task::JoinSet;

on_both_stores!(
    opposite_orders_never_block_each_other,
    callers_in_this_process_are_not_overtaken,
    a_caller_that_comes_during_the_request_is_next,
);

async fn opposite_orders_never_block_each_other(locks: Locks) {
    let mut tasks = JoinSet::new();
    for keys in [["a", "b"], ["b", "a"]] {
        let locks = locks.clone();
        tasks.spawn(async move {
            for _ in 0..200 {
                let turn = locks.lock_all(keys).run(tokio::task::yield_now());
                turn.await.unwrap();
            }
        });
    }
    within(DEADLINE, "both come to their end", tasks.join_all()).await;
}

/// A lock that is free, and that a caller of this process waits for, is not taken before it.
async fn callers_in_this_process_are_not_overtaken(locks: Locks) {
    let holder = locks.lock("a").await.unwrap();
    let section = Arc::new(Section::default());
    let visit = |section: &Arc<Section>| {
        let section = Arc::clone(section);
        async move { section.visit().await }
    };
    let first = tokio::spawn(locks.with_lock("a", visit(&section)));
    let waits = async || waiters(&locks, "a").await == Some(1);
    eventually(DEADLINE, "the first waits", waits).await;
    assert!(
        locks
            .lock_all(["b", "a"])
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let visits = Arc::clone(&section);
    let second = locks
        .lock_all(["b", "a"])
        .run(async move { visits.visits() });
    let second = tokio::spawn(second);
    let waits = async || waiters(&locks, "a").await == Some(2);
    eventually(DEADLINE, "the second waits", waits).await;
    holder.release().await.unwrap();
    let first = within(DEADLINE, "the first enters", first).await;
    first.unwrap().unwrap();
    let second = within(DEADLINE, "the second enters", second).await;
    assert_eq!(second.unwrap().unwrap(), 1);
}

async fn a_caller_that_comes_during_the_request_is_next(locks: Locks) {
    for round in 0..20 {
        let several = tokio::spawn(locks.lock_all(["a", "b"]).run(async {}));
        // It comes at another moment each time.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        within(DEADLINE, "it enters", locks.with_lock("b", async {}))
            .await
            .unwrap();
        let several = within(DEADLINE, "they enter", several).await;
        several.unwrap().unwrap();
        assert!(
            locks
                .lock_all(["a", "b"])
                .try_acquire()
                .await
                .unwrap()
                .is_some()
        );
        let free = async || locks.inspect("a").await.unwrap().is_none();
        eventually(DEADLINE, "it is given back", free).await;
    }
}

/// The lock goes to the process that has waited for it, and not to the one that would take it with others.
#[tokio::test]
async fn a_process_that_waits_is_not_overtaken() {
    let server = RedisServer::start().await;
    let [first, second, third] = processes(&unhurried(&server)).await;
    let holder = first.lock("a").await.unwrap();
    let waiting =
        tokio::spawn(second.with_lock("a", async { reentry::held("a").unwrap().fencing_token() }));
    let stands = async || server.ask("ZCARD reentry:queue:{a}:a").await == "1";
    eventually(DEADLINE, "it waits", stands).await;
    let several = tokio::spawn(
        third
            .lock_all(["a", "b"])
            .run(async { reentry::held("a").unwrap().fencing_token() }),
    );
    let stands = async || server.ask("ZCARD reentry:queue:{a}:a").await == "2";
    eventually(DEADLINE, "both wait", stands).await;
    holder.release().await.unwrap();
    let one = within(DEADLINE, "the first enters", waiting)
        .await
        .unwrap()
        .unwrap();
    let other = within(DEADLINE, "the others enter", several)
        .await
        .unwrap()
        .unwrap();
    assert!(one < other);
}

/// It is released in the store, and the next caller has a hold of its own.
#[tokio::test]
async fn several_locks_are_never_handed_on_in_memory() {
    let server = RedisServer::start().await;
    let builder = unhurried(&server).handoff(HandOff::InProcess);
    let [locks] = processes(&builder).await;
    let guard = locks.lock_all(["a", "b"]).await.unwrap();
    let hold = guard.held("b").unwrap().hold_id();
    let next = tokio::spawn(locks.with_lock("b", async { reentry::held("b").unwrap().hold_id() }));
    let waits = async || waiters(&locks, "b").await == Some(1);
    eventually(DEADLINE, "it waits", waits).await;
    // Long enough for a token of its own.
    tokio::time::sleep(Duration::from_millis(5)).await;
    guard.release().await.unwrap();
    let next = within(DEADLINE, "it enters", next).await.unwrap().unwrap();
    assert_ne!(next, hold);

    // Nor do several inherit the hold of another caller.
    let holder = locks.lock("b").await.unwrap();
    let hold = holder.held().hold_id();
    let several = locks
        .lock_all(["b", "a"])
        .run(async { reentry::held("b").unwrap().hold_id() });
    let several = tokio::spawn(several);
    let waits = async || waiters(&locks, "b").await == Some(1);
    eventually(DEADLINE, "they wait", waits).await;
    holder.release().await.unwrap();
    let several = within(DEADLINE, "they enter", several)
        .await
        .unwrap()
        .unwrap();
    assert_ne!(several, hold);
}

/// A place in the line that no waiter comes for, as of a process that died, is found by who asks for that lock alone.
#[tokio::test]
async fn the_place_of_a_dead_process_is_passed() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    server
        .ask("ZADD reentry:queue:{a}:a 1099511627777 reentry:inbox:dead")
        .await;
    server.ask("PEXPIRE reentry:queue:{a}:a 600000").await;
    let several = locks.lock_all(["a", "b"]).run(async {});
    within(DEADLINE, "they enter", several).await.unwrap();
    assert_eq!(server.ask("DBSIZE").await, "0");
}
