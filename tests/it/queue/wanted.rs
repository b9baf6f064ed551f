//! A holder waits until another caller wants its lock.

use std::time::Duration;

use futures_util::FutureExt;
use reentry::{LockError, LockGuard, Locks, LocksBuilder};
use tokio::task::JoinHandle;

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, eventually, patient, processes, until_waiting, within,
};

/// A heartbeat so long that nothing is noticed because of it within a test.
fn rarely(server: &RedisServer) -> LocksBuilder {
    let minute = Duration::from_secs(60);
    patient(server).__heartbeat(minute).ttl(10 * minute)
}

/// A task that ends when the lock is wanted.
fn wanted(guard: &LockGuard) -> JoinHandle<()> {
    let held = guard.held().clone();
    tokio::spawn(async move { held.wanted().await })
}

/// Releases the lock. The waiting caller gets it.
async fn give_way(guard: LockGuard, waiting: JoinHandle<Result<(), LockError>>) {
    guard.release().await.unwrap();
    let entered = within(DEADLINE, "the other enters", waiting).await;
    entered.unwrap().unwrap();
}

/// The holder is notified by a message, and in no other way: its next request is a minute away.
#[tokio::test]
async fn a_holder_learns_of_a_waiting_process_by_message() {
    let server = RedisServer::start().await;
    let [holder, other] = processes(&rarely(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let before = server.commandstats().await;
    let wanted = wanted(&guard);
    let asked = async || server.calls_since(&before).await.contains_key("evalsha");
    eventually(DEADLINE, "the holder has asked", asked).await;
    let open = async || server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "its inbox is open", open).await;
    let waiting = tokio::spawn(other.with_lock(KEY, async {}));
    within(DEADLINE, "it is wanted", wanted).await.unwrap();
    // A later call learns it from the store.
    within(DEADLINE, "it is still wanted", guard.held().wanted()).await;
    give_way(guard, waiting).await;
    assert_eq!(server.key_count().await, 0);
}

#[tokio::test]
async fn without_messages_a_holder_learns_of_a_waiter_at_a_heartbeat() {
    let server = RedisServer::start().await;
    let pool = deadpool_redis::Config::from_url(server.url());
    let pool = pool.create_pool(Some(deadpool_redis::Runtime::Tokio1));
    let builder = Locks::builder_with_pool(pool.unwrap());
    let builder = builder.response_timeout(DEADLINE).wait(DEADLINE);
    let [holder, other] = processes(&builder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let wanted = wanted(&guard);
    let waiting = tokio::spawn(other.with_lock(KEY, async {}));
    within(DEADLINE, "it is wanted", wanted).await.unwrap();
    assert_eq!(server.subscriptions().await.len(), 0);
    give_way(guard, waiting).await;
}

/// A reader and a waiter for it. Readers share one token, so the store is asked at each heartbeat.
#[tokio::test]
async fn a_reader_gives_way_to_a_writer() {
    let server = RedisServer::start().await;
    let builder = patient(&server).__heartbeat(Duration::from_millis(50));
    let [one, other] = processes(&builder).await;
    let guard = one.lock(KEY).read().await.unwrap();
    let writer = tokio::spawn(other.with_lock(KEY, async {}));
    within(DEADLINE, "it is wanted", guard.held().wanted()).await;
    give_way(guard, writer).await;
}

#[tokio::test]
async fn wanted_does_not_resolve_for_an_uncontended_or_ended_hold() {
    let server = RedisServer::start().await;
    let builder = patient(&server).__heartbeat(Duration::from_millis(20));
    let locks = builder.build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    let before = server.commandstats().await;
    let mut wanted = Box::pin(guard.held().wanted());
    let several = async || {
        assert!((&mut wanted).now_or_never().is_none());
        server.count_since(&before, "evalsha").await > 2
    };
    eventually(DEADLINE, "it asks at each heartbeat", several).await;
    drop(wanted);
    let held = guard.held().clone();
    guard.release().await.unwrap();
    // A call asks once at its beginning, and no more after the end of the hold.
    let mut wanted = Box::pin(held.wanted());
    let is_silent = async || {
        let before = server.commandstats().await;
        let ended = tokio::time::timeout(Duration::from_millis(200), &mut wanted);
        assert!(ended.await.is_err());
        server.count_since(&before, "evalsha").await == 0
    };
    eventually(DEADLINE, "it asks nothing more", is_silent).await;
    let _next = locks.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(locks.with_lock(KEY, async {}));
    until_waiting(&locks, KEY, 1).await;
    // Now another hold is wanted.
    assert!(held.wanted().now_or_never().is_none());
    waiting.abort();
}
