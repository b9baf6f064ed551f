//! Permits: a limited number of callers at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::{
    DEADLINE, RedisServer, depths, eventually, on_both_stores, patient, until_waiting, within,
};
use reentry::{LockError, Locks};
use tokio::task::JoinSet;
use tokio::time::Instant;

on_both_stores!(
    no_more_than_so_many_are_inside,
    each_one_that_leaves_lets_the_next_in,
    a_permit_is_not_shared_with_nested_calls,
    permits_and_locks_exclude_each_other,
    each_asker_goes_by_its_own_number,
    several_permits_are_taken_together_or_not_at_all,
    permits_of_all_sizes_are_never_too_many,
    a_hold_of_several_permits_is_renewed_and_lost_as_one,
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
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn each_one_that_leaves_lets_the_next_in(locks: Locks) {
    let semaphore = locks.semaphore("key", 2);
    let one = semaphore.clone().await.unwrap();
    let two = semaphore.clone().await.unwrap();
    assert!(semaphore.clone().try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(semaphore.clone().acquire());
    until_waiting(&locks, "key", 1).await;
    one.release().await.unwrap();
    let three = within(DEADLINE, "the next one", waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(depths(&locks, "key").await, [1, 1]);
    for permit in [two, three] {
        permit.release().await.unwrap();
    }
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
        matches!(refused, Err(LockError::Config { .. })),
        "{refused:?}"
    );
}

async fn several_permits_are_taken_together_or_not_at_all(locks: Locks) {
    let semaphore = locks.semaphore("key", 3);
    let one = semaphore.clone().await.unwrap();
    let three = semaphore.clone().permits(3);
    assert!(three.clone().try_acquire().await.unwrap().is_none());
    assert_eq!(depths(&locks, "key").await, [1]);
    let waiting = tokio::spawn(three.acquire());
    until_waiting(&locks, "key", 1).await;
    let behind = tokio::spawn(semaphore.clone().acquire());
    until_waiting(&locks, "key", 2).await;
    assert_eq!(depths(&locks, "key").await, [1]);
    one.release().await.unwrap();
    let three = within(DEADLINE, "all three", waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(depths(&locks, "key").await, [1, 1, 1]);
    three.release().await.unwrap();
    let behind = within(DEADLINE, "the one behind", behind).await.unwrap();
    assert_eq!(depths(&locks, "key").await, [1]);
    behind.unwrap().release().await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn permits_of_all_sizes_are_never_too_many(locks: Locks) {
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..24_u32 {
        let (inside, permits) = (Arc::clone(&inside), number % 5 + 1);
        let request = locks.semaphore("key", 5).permits(permits);
        tasks.spawn(request.run(async move {
            let now = inside.fetch_add(permits, SeqCst) + permits;
            assert!(now <= 5, "{now} permits");
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            inside.fetch_sub(permits, SeqCst);
        }));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn a_hold_of_several_permits_is_renewed_and_lost_as_one(locks: Locks) {
    let ttl = Duration::from_secs(1);
    let request = locks.semaphore("key", 3).permits(2).ttl(ttl);
    let guard = request.clone().await.unwrap();
    let deadline = || Instant::now() + guard.held().remaining();
    let before = deadline();
    let renewed = async || deadline() > before + 3 * ttl;
    eventually(DEADLINE, "it is renewed again and again", renewed).await;
    assert_eq!(depths(&locks, "key").await, [1, 1]);
    assert!(locks.force_release("key").await.unwrap());
    within(DEADLINE, "it is lost", guard.held().lost()).await;
    assert!(guard.release().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn numbers_of_permits_that_no_semaphore_has_are_rejected() {
    let locks = Locks::in_memory();
    let requests = [
        locks.semaphore("key", 3).permits(4),
        locks.semaphore("key", 3).permits(0),
        locks.semaphore("key", 1_000).permits(257),
        locks.lock("key").permits(1),
    ];
    for request in requests {
        let refused = request.acquire().await;
        assert!(
            matches!(refused, Err(LockError::Config { .. })),
            "{refused:?}"
        );
    }
    let many = locks.semaphore("key", 256).permits(256).await.unwrap();
    many.release().await.unwrap();
}

/// All fields of a hold are acquired with one request, and released with another one.
#[tokio::test]
async fn several_permits_cost_as_many_requests_as_one() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    let request = locks.semaphore("key", 16).permits(16);
    request.clone().run(async {}).await.unwrap();
    let before = server.commandstats().await;
    request.run(async {}).await.unwrap();
    assert_eq!(server.calls_since(&before).await["evalsha"], 2);
    assert_eq!(server.key_count().await, 0);
}
