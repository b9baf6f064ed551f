//! P1: at most one call graph is inside the body of an exclusive lock.

use std::sync::Arc;

use crate::support::{Section, on_both_stores};
use reentry::Locks;
use tokio::task::JoinSet;

on_both_stores!(
    guards_and_bodies_exclude_each_other,
    nested_entries_let_no_other_caller_in_between,
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

/// The exit of a nested entry is not a release: the contender waits for the outermost one.
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
