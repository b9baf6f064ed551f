//! P2, P3: a future that was polled and is then no longer polled, for example by `select!` over a borrowed future, does not
//! block any other caller.

use std::sync::Arc;

use crate::support::{
    DEADLINE, RedisServer, connect, eventually, in_memory, patient, until_waiting, waiters, within,
};
use futures_util::FutureExt;
use reentry::{Locks, held};

in_memory!(an_unpolled_waiter_is_passed_over_after_two_heartbeats,);

/// The lock goes to the next waiter long before the lease ends. The waiter that was passed over does not enter on the
/// old grant, but sends another request.
async fn an_unpolled_waiter_is_passed_over_after_two_heartbeats(locks: Locks) {
    let ttl = 10 * DEADLINE;
    let guard = locks.lock("key").await.unwrap();
    let request = locks
        .lock("key")
        .ttl(ttl)
        .on_lost(reentry::OnLost::KeepRunning);
    let lost = request.run(async { held("key").unwrap().is_lost() });
    let mut left_alone = Box::pin(lost);
    let is_waiting = async || {
        assert!((&mut left_alone).now_or_never().is_none());
        waiters(&locks, "key").await == Some(1)
    };
    eventually(DEADLINE, "the first waiter", is_waiting).await;
    let section = Arc::new(crate::support::Section::default());
    let behind = {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tokio::spawn(async move { locks.with_lock("key", section.visit()).await })
    };
    until_waiting(&locks, "key", 2).await;
    guard.release().await.unwrap();
    within(DEADLINE, "the one behind", behind)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(section.visits(), 1);
    let entered_lost = within(DEADLINE, "the one passed over", left_alone).await;
    assert!(!entered_lost.unwrap(), "entered on a lease that had ended");
}

/// The caller waits in this process, and another one is behind it in the store.
#[tokio::test]
async fn an_unpolled_waiter_blocks_no_other_process() {
    let server = RedisServer::start().await;
    let patient = || patient(&server).ttl(10 * DEADLINE).build();
    let (here, there) = (patient().await.unwrap(), patient().await.unwrap());
    let builder = crate::support::patient(&server).ttl(10 * DEADLINE);
    let locks = builder.build().await.unwrap();
    // A key without a known token has no cohorts.
    here.with_lock("key", async {}).await.unwrap();
    let guard = locks.lock("key").await.unwrap();
    let mut left_alone = Box::pin(locks.with_lock("key", async {}));
    assert!((&mut left_alone).now_or_never().is_none());
    let elsewhere = tokio::spawn(there.with_lock("key", async {}));
    until_waiting(&there, "key", 1).await;
    guard.release().await.unwrap();
    let entered = within(DEADLINE, "the other process", elsewhere).await;
    entered.unwrap().unwrap();
    drop(left_alone);
}

/// It has the lock, and its replicas are awaited.
#[tokio::test]
async fn an_unpolled_unconfirmed_lock_blocks_no_other_caller() {
    let server = RedisServer::start().await;
    let builder = patient(&server).ttl(60 * DEADLINE);
    let builder = builder.confirm(1, 60 * DEADLINE);
    let locks = builder.build().await.unwrap();
    let mut left_alone = Box::pin(locks.lock("key").acquire());
    let awaits_replicas = async || {
        assert!((&mut left_alone).now_or_never().is_none());
        let clients = server.ask("INFO clients").await;
        clients.contains("blocked_clients:1")
    };
    eventually(DEADLINE, "it waits for replicas", awaits_replicas).await;
    let other = connect(&server).await;
    let other = other.with_lock("key", async {});
    within(DEADLINE, "the other", other).await.unwrap();
    drop(left_alone);
}

/// Another process has the lock when the request is sent, and no longer has it when the response is read.
#[tokio::test]
async fn an_unpolled_try_acquire_does_not_block_a_free_lock() {
    let server = RedisServer::start().await;
    let (locks, elsewhere) = (connect(&server).await, connect(&server).await);
    let holder = elsewhere.lock("key").await.unwrap();
    let asked = server.commandstats().await["evalsha"];
    let mut left_alone = Box::pin(locks.lock("key").try_acquire());
    assert!((&mut left_alone).now_or_never().is_none());
    let has_asked = async || server.commandstats().await["evalsha"] > asked;
    eventually(DEADLINE, "the request", has_asked).await;
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    holder.release().await.unwrap();
    let guard = locks.lock("key").try_acquire().await.unwrap();
    assert!(guard.is_some(), "the lock was free");
    assert!(left_alone.await.unwrap().is_none());
}

/// There are more requests than are sent in parallel, as in `buffer_unordered` while the body of its loop waits for a
/// lock.
#[tokio::test]
async fn many_unpolled_callers_block_no_request() {
    let server = RedisServer::start().await;
    let locks = patient(&server).response_timeout(2 * DEADLINE);
    let locks = locks.build().await.unwrap();
    let left_alone = (0..500).map(|number| Box::pin(locks.lock(number.to_string()).acquire()));
    let mut left_alone: Vec<_> = left_alone.collect();
    for caller in &mut left_alone {
        assert!(caller.now_or_never().is_none());
    }
    let other = locks.with_lock("other", async {});
    within(DEADLINE, "the other", other).await.unwrap();
}
