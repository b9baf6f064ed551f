//! P1, P2: which callers share a lock, which are kept out, and what a nested call gets.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::stats::Calls;
use crate::support::{RedisServer, connect, depths, on_both_stores, until_depths, until_waiting};
use reentry::__admin::Ids as _;
use reentry::admin::Holder;
use reentry::testing::Server;
use reentry::{LockError, Locks, held};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

on_both_stores!(
    a_read_that_does_not_wait_enters_beside_others_and_not_behind_a_writer,
    readers_and_writers_never_meet,
    a_read_under_a_read_is_the_same_hold,
    a_read_under_a_write_stays_exclusive,
    a_write_under_a_read_is_refused_at_once,
    tokens_tell_whether_a_writer_came_between,
);

/// Writers count down from 0 and readers up. Neither ever sees the other.
async fn readers_and_writers_never_meet(locks: Locks) {
    let inside = Arc::new(AtomicI64::new(0));
    let together = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (locks, inside) = (locks.clone(), Arc::clone(&inside));
        let together = Arc::clone(&together);
        tasks.spawn(async move {
            for section in 0..10 {
                let writes = (task + section) % 4 == 0;
                let step = if writes { -1 } else { 1 };
                let body = async {
                    let before = inside.fetch_add(step, SeqCst);
                    assert!(if writes { before == 0 } else { before >= 0 }, "{before}");
                    together.fetch_max(before + 1, SeqCst);
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                    inside.fetch_sub(step, SeqCst);
                };
                let request = locks.lock("key");
                let request = if writes { request } else { request.read() };
                request.run(body).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(together.load(SeqCst) > 1);
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

/// Each reader shows its own hold.
async fn a_read_that_does_not_wait_enters_beside_others_and_not_behind_a_writer(locks: Locks) {
    let read = || locks.lock("key").read().no_wait();
    let mut guards = Vec::new();
    for _ in 0..10 {
        guards.push(read().await.unwrap());
    }
    let info = locks.admin().inspect("key").await.unwrap().unwrap();
    let first = guards[0].held();
    assert!(first.is_shared() && info.is_shared);
    assert_eq!(info.token, Some(first.fencing_token()));
    let shown = info.holders.iter().map(|holder| holder.hold_id.clone());
    let mut shown: Vec<_> = shown.collect();
    let held = guards
        .iter()
        .map(|guard| guard.held().hold_id().to_string());
    let mut held: Vec<_> = held.collect();
    shown.sort();
    held.sort();
    assert_eq!(shown, held);
    assert!(info.holders.iter().all(|holder| holder.remaining.is_some()));
    let writer = tokio::spawn(locks.with_lock("key", async {}));
    until_waiting(&locks, "key", 1).await;
    let late = read().await;
    assert!(matches!(late, Err(LockError::Busy { .. })), "{late:?}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    writer.await.unwrap().unwrap();
}

async fn a_read_under_a_read_is_the_same_hold(locks: Locks) {
    let nested = async {
        let outer = held("key").unwrap();
        let inner = locks
            .lock("key")
            .read()
            .run(async { held("key").unwrap().hold_id() });
        assert_eq!(inner.await.unwrap(), outer.hold_id());
        locks
            .lock("key")
            .read()
            .run(async {
                until_depths(&locks, "key", &[2]).await;
            })
            .await
            .unwrap();
        until_depths(&locks, "key", &[1]).await;
    };
    locks.lock("key").read().run(nested).await.unwrap();
}

async fn a_read_under_a_write_stays_exclusive(locks: Locks) {
    let nested = async {
        let mode = locks
            .lock("key")
            .read()
            .run(async { held("key").unwrap().is_shared() });
        assert!(!mode.await.unwrap());
        let outside = tokio::spawn(locks.lock("key").read().try_acquire());
        assert!(outside.await.unwrap().unwrap().is_none());
    };
    locks.with_lock("key", nested).await.unwrap();
}

async fn a_write_under_a_read_is_refused_at_once(locks: Locks) {
    let nested = async {
        let write = locks.with_lock("key", async {}).await;
        assert!(
            matches!(&write, Err(LockError::Misuse { key, .. }) if key.as_deref() == Some("key")),
            "{write:?}"
        );
        locks.with_lock("other", async {}).await.unwrap();
        assert_eq!(depths(&locks, "key").await, [1]);
    };
    locks.lock("key").read().run(nested).await.unwrap();
}

async fn tokens_tell_whether_a_writer_came_between(locks: Locks) {
    let token = async |shares: bool| {
        let request = locks.lock("key");
        let request = if shares { request.read() } else { request };
        let body = async { held("key").unwrap().fencing_token() };
        request.run(body).await.unwrap()
    };
    let reader = locks.lock("key").read().await.unwrap();
    let first = reader.held().fencing_token();
    assert_eq!(token(true).await, first);
    reader.release().await.unwrap();
    let writer = token(false).await;
    assert!(writer > first);
    assert!(token(true).await > writer);
}

async fn evalsha(server: &RedisServer, before: &Calls) -> u64 {
    let calls = server.calls_since(before).await;
    calls.get("evalsha").copied().unwrap_or(0)
}

/// A single reader is two EVALSHA. Readers that join while a request is in flight enter with one request: 1 + 1 + 16 +
/// 14, and one end for each.
#[tokio::test]
async fn readers_who_come_together_enter_by_few_requests() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    locks.lock("key").read().run(async {}).await.unwrap();
    let before = server.commandstats().await;
    for _ in 0..10 {
        locks.lock("key").read().run(async {}).await.unwrap();
    }
    assert_eq!(evalsha(&server, &before).await, 20);
    let before = server.commandstats().await;
    let inside = Arc::new(Barrier::new(32));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let inside = Arc::clone(&inside);
        let body = async move { inside.wait().await };
        tasks.spawn(locks.lock("key").read().run(body));
    }
    for done in tasks.join_all().await {
        done.unwrap();
    }
    let asked = evalsha(&server, &before).await;
    assert!(asked <= 32 + 4, "{asked}");
    assert_eq!(server.key_count().await, 0);
}

/// The message notifies them immediately.
#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_no_longer_lets_the_readers_behind_it_in() {
    let server = Server::new();
    let [holder, writer, reader] = [server.locks(), server.locks(), server.locks()];
    let inside = holder.lock("key").read().await.unwrap();
    let write = tokio::spawn(writer.lock("key").acquire());
    sleep(Duration::from_millis(100)).await;
    let read = tokio::spawn(reader.lock("key").read().acquire());
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    write.abort();
    read.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    inside.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_dies_keeps_a_writer_out_for_its_own_lease_alone() {
    let server = Server::new();
    let [dies, stays, writer] = [server.locks(), server.locks(), server.locks()];
    let dead = tokio::spawn(dies.lock("key").read().run(pending::<()>()));
    sleep(Duration::from_secs(1)).await;
    let guard = stays.lock("key").read().await.unwrap();
    server.partition(&dies);
    dead.abort();
    let living = async || {
        let info = stays.admin().inspect("key").await.unwrap().unwrap();
        let lives = |holder: &&Holder| holder.remaining.is_some_and(|left| !left.is_zero());
        info.holders.iter().filter(lives).count()
    };
    sleep(Duration::from_secs(28)).await;
    assert_eq!(living().await, 2);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(living().await, 1);
    guard.release().await.unwrap();
    let written = writer.lock("key").no_wait().await.unwrap();
    written.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_and_permits_are_kept_while_they_stay() {
    let locks = Locks::in_memory();
    let mut guards = Vec::new();
    for seconds in [3, 30, 30, 300] {
        let ttl = Duration::from_secs(seconds);
        guards.push(locks.lock("key").read().ttl(ttl).await.unwrap());
    }
    guards.push(locks.semaphore("permits", 2).await.unwrap());
    sleep(Duration::from_secs(3_600)).await;
    assert!(guards.iter().all(|guard| !guard.held().is_lost()));
    assert_eq!(depths(&locks, "key").await, [1; 4]);
}
