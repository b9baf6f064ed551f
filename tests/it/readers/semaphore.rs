//! Permits: a limited number of callers at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use crate::support::{depths, on_both_stores};
use reentry::{LockError, Locks};
use tokio::task::JoinSet;

on_both_stores!(
    no_more_than_so_many_are_inside,
    a_permit_is_not_shared_with_nested_calls,
    permits_and_locks_exclude_each_other,
    each_asker_goes_by_its_own_number,
);

async fn no_more_than_so_many_are_inside(locks: Locks) {
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (inside, most, locks) = (Arc::clone(&inside), Arc::clone(&most), locks.clone());
        tasks.spawn(async move {
            let body = async {
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                inside.fetch_sub(1, SeqCst);
            };
            locks.semaphore("key", 3).run(body).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert!((1..=3).contains(&most.load(SeqCst)), "{most:?}");
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

async fn a_permit_is_not_shared_with_nested_calls(locks: Locks) {
    let body = async {
        let nested = async { depths(&locks, "key").await };
        locks.semaphore("key", 2).run(nested).await.unwrap()
    };
    assert_eq!(locks.semaphore("key", 2).run(body).await.unwrap(), [1, 1]);
}

async fn permits_and_locks_exclude_each_other(locks: Locks) {
    let permit = locks.semaphore("key", 2).await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    permit.release().await.unwrap();
    let lock = locks.lock("key").await.unwrap();
    let permit = locks.semaphore("key", 2).try_acquire().await.unwrap();
    assert!(permit.is_none());
    lock.release().await.unwrap();
}

async fn each_asker_goes_by_its_own_number(locks: Locks) {
    let permit = locks.semaphore("key", 5).await.unwrap();
    let few = locks.semaphore("key", 1).try_acquire().await.unwrap();
    assert!(few.is_none());
    let more = locks.semaphore("key", 2).no_wait().await.unwrap();
    for permit in [permit, more] {
        permit.release().await.unwrap();
    }
    let refused = locks.semaphore("key", 0).run(async {}).await;
    assert!(
        matches!(refused, Err(LockError::Misuse { .. })),
        "{refused:?}"
    );
}
