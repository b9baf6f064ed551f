//! P1: at most one call graph is inside the body of an exclusive lock.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    DEADLINE, RedisServer, Section, connect, depths, eventually, on_both_stores, patient, within,
};
use reentry::Locks;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

on_both_stores!(
    guards_and_bodies_exclude_each_other,
    nested_entries_let_no_other_caller_in_between,
    different_keys_do_not_wait_for_each_other,
);

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
