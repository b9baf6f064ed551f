//! P1: at most one call graph is inside the body of an exclusive lock.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    DEADLINE, RedisServer, Section, connect, depths, eventually, on_both_stores, patient, within,
};
use reentry::{Locks, Wake};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

on_both_stores!(
    tasks_exclude_each_other,
    many_contenders_lose_no_update_of_an_unguarded_counter,
    guards_and_bodies_exclude_each_other,
    nested_entries_let_no_other_caller_in_between,
    different_keys_do_not_wait_for_each_other,
);

async fn tasks_exclude_each_other(locks: Locks) {
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move { locks.with_lock("key", section.visit()).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(section.visits(), 20);
    assert!(locks.inspect("key").await.unwrap().is_none());
}

/// Read, wait, write: every overlap would lose an update.
async fn many_contenders_lose_no_update_of_an_unguarded_counter(locks: Locks) {
    let counter = Arc::new(std::sync::Mutex::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (locks, counter) = (locks.clone(), Arc::clone(&counter));
        tasks.spawn(async move {
            for _ in 0..10 {
                let update = async {
                    let seen = *counter.lock().unwrap();
                    tokio::task::yield_now().await;
                    *counter.lock().unwrap() = seen + 1;
                };
                locks.with_lock("key", update).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(*counter.lock().unwrap(), 100);
}

async fn guards_and_bodies_exclude_each_other(locks: Locks) {
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for n in 0..12 {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move {
            match n % 3 {
                0 => locks.with_lock("key", section.visit()).await.unwrap(),
                1 => {
                    let guard = locks.lock("key").await.unwrap();
                    section.visit().await;
                    guard.release().await.unwrap();
                }
                _ => {
                    let guard = locks.lock("key").await.unwrap();
                    guard.scope(section.visit()).await.unwrap();
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), 12);
}

/// The exit of a nested entry is no release: the contender waits for the outermost one.
async fn nested_entries_let_no_other_caller_in_between(locks: Locks) {
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move {
            let whole = async {
                for _ in 0..3 {
                    locks.with_lock("key", async {}).await.unwrap();
                    section.visit().await;
                }
            };
            locks.with_lock("key", whole).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), 24);
}

async fn different_keys_do_not_wait_for_each_other(locks: Locks) {
    let _one = locks.lock("one").no_wait().await.unwrap();
    let _other = locks.lock("other").no_wait().await.unwrap();
    // Names that share a hash tag are still different locks.
    let _tagged = locks.lock("{one}").no_wait().await.unwrap();
    let _tagged_too = locks.lock("{one}:x").no_wait().await.unwrap();
    assert_eq!(depths(&locks, "one").await, [1]);
}

/// Each process of a real deployment has a `Locks` of its own; two in one process are the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn separately_built_locks_on_one_server_exclude_each_other() {
    let server = RedisServer::start().await;
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let poll = Wake::Poll {
            interval: Duration::from_millis(1),
            attempts: None,
        };
        let build = patient(&server).wake(poll).build();
        let locks = build.await.unwrap();
        for _ in 0..4 {
            let (locks, section) = (locks.clone(), Arc::clone(&section));
            tasks.spawn(async move {
                for _ in 0..5 {
                    locks.with_lock("key", section.visit()).await.unwrap();
                }
            });
        }
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(3 * DEADLINE, "every contender's turn", all).await;
    assert_eq!(section.visits(), 60);
    assert_eq!(server.ask("EXISTS key").await, "0");
}

/// The other waits for as long as the lock is held, and not for as long as its first lease.
#[tokio::test]
async fn a_contender_outwaits_the_leases_of_a_living_holder() {
    let server = RedisServer::start().await;
    let holders = patient(&server);
    let holders = holders.ttl(Duration::from_secs(3)).build();
    let (holders, contenders) = (holders.await.unwrap(), connect(&server).await);
    let guard = holders.lock("key").await.unwrap();
    let (entered, mut has_entered) = oneshot::channel();
    let contender = contenders.clone();
    let contender = tokio::spawn(async move {
        let body = async { entered.send(()).unwrap() };
        contender.with_lock("key", body).await.unwrap();
    });
    // Four renewals, each of which counts twice, are more than a lease.
    let before = server.commandstats().await;
    eventually(DEADLINE, "four renewals", async || {
        let calls = server.calls_since(&before).await;
        assert!(has_entered.try_recv().is_err(), "entered a held lock");
        calls.get("pexpire").is_some_and(|&calls| calls >= 8)
    })
    .await;
    guard.release().await.unwrap();
    within(DEADLINE, "the contender's turn", has_entered)
        .await
        .unwrap();
    contender.await.unwrap();
}
