//! Readers and writers of several processes on a real server: what it costs, and who comes next.

use std::time::Duration;

use crate::support::child::{self, Child};
use crate::support::stats::Calls;
use crate::support::turns::{processes, unhurried, until_queued};
use crate::support::{DEADLINE, RedisServer, depths, eventually, patient_at, within};
use reentry::{Holder, Locks, Mode};
use tokio::task::JoinSet;

const KEY: &str = "order:42";

async fn evalsha(server: &RedisServer, before: &Calls) -> u64 {
    server
        .calls_since(before)
        .await
        .get("evalsha")
        .copied()
        .unwrap_or(0)
}

#[tokio::test]
async fn a_reader_alone_is_two_evalsha() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server)).await;
    locks.with_read_lock(KEY, async {}).await.unwrap();
    let before = server.commandstats().await;
    for _ in 0..10 {
        locks.with_read_lock(KEY, async {}).await.unwrap();
    }
    assert_eq!(evalsha(&server, &before).await, 20);
    assert_eq!(server.ask("DBSIZE").await, "0");
}

/// Those who come while one is on its way enter by one request: 1 + 1 + 16 + 14, and one end for each.
#[tokio::test]
async fn readers_who_come_together_enter_by_few_requests() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server)).await;
    locks.with_read_lock(KEY, async {}).await.unwrap();
    let before = server.commandstats().await;
    let inside = std::sync::Arc::new(tokio::sync::Barrier::new(32));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (request, inside) = (locks.lock(KEY).shared(), std::sync::Arc::clone(&inside));
        tasks.spawn(async move {
            request
                .run(async {
                    inside.wait().await;
                })
                .await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let asked = evalsha(&server, &before).await;
    assert!(asked <= 32 + 4, "{asked}");
}

#[tokio::test]
async fn readers_of_two_processes_share_and_a_writer_of_a_third_waits() {
    let server = RedisServer::start().await;
    let [one, other, writer] = processes(&unhurried(&server)).await;
    let first = one.lock(KEY).shared().await.unwrap();
    let second = other.lock(KEY).shared().await.unwrap();
    let request = writer.lock(KEY);
    let write = tokio::spawn(async move { request.await.unwrap().release().await });
    // Two readers and the writer.
    until_queued(&server, 3).await;
    assert!(
        one.lock(KEY)
            .shared()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    first.release().await.unwrap();
    assert_eq!(
        other.inspect(KEY).await.unwrap().unwrap().mode,
        Mode::Shared
    );
    second.release().await.unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(server.ask("DBSIZE").await, "0");
}

/// The message tells them: within a test no heartbeat passes.
#[tokio::test]
async fn a_writer_that_waits_no_longer_lets_the_readers_behind_it_in() {
    let server = RedisServer::start().await;
    let [holder, writer, reader] = processes(&unhurried(&server)).await;
    let inside = holder.lock(KEY).shared().await.unwrap();
    let request = writer.lock(KEY);
    let write = tokio::spawn(async move { request.await.map(drop) });
    until_queued(&server, 2).await;
    let request = reader.lock(KEY).shared();
    let read = tokio::spawn(async move { request.await.unwrap().release().await });
    until_queued(&server, 3).await;
    write.abort();
    within(DEADLINE, "the reader enters", read)
        .await
        .unwrap()
        .unwrap();
    inside.release().await.unwrap();
}

#[tokio::test]
async fn child_that_reads() {
    let Some(role) = child::role("child_that_reads") else {
        return;
    };
    let builder = patient_at(role.var("REDIS_URL")).ttl(LEASE);
    let locks = builder.build().await.unwrap();
    let body = async {
        role.say("reading");
        role.order().await;
    };
    locks.with_read_lock(KEY, body).await.unwrap();
}

/// The lease of the one that dies. It may be lost before it is killed; then nothing is left to be seen.
const LEASE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_reader_that_is_killed_keeps_a_writer_out_for_its_own_lease_alone() {
    let server = RedisServer::start().await;
    let variables = [("REDIS_URL", &*server.url())];
    let mut child = Child::spawn(module_path!(), "child_that_reads", &variables);
    child.wait_for_line("reading").await;
    let [stays, writer] = processes(&unhurried(&server)).await;
    let guard = stays.lock(KEY).shared().await.unwrap();
    child.sigkill();
    // The other one's lease outlasts the test.
    let alone = async || {
        let info = stays.inspect(KEY).await.unwrap().unwrap();
        let lives = |holder: &Holder| holder.remaining.is_some_and(|left| !left.is_zero());
        info.holders.iter().filter(|holder| lives(holder)).count() == 1
    };
    eventually(DEADLINE, "the lease of the dead one ends", alone).await;
    guard.release().await.unwrap();
    let written = writer.lock(KEY).no_wait().await.unwrap();
    written.release().await.unwrap();
}

/// On paused time, so that nothing but time passes.
#[tokio::test(start_paused = true)]
async fn readers_are_kept_while_they_stay() {
    let locks = Locks::in_memory();
    let mut guards = Vec::new();
    for seconds in [3, 30, 30, 300] {
        let ttl = Duration::from_secs(seconds);
        guards.push(locks.lock(KEY).shared().ttl(ttl).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(guards.iter().all(|guard| !guard.held().is_lost()));
    assert_eq!(depths(&locks, KEY).await, [1; 4]);
    let downgraded = locks.lock("another").await.unwrap();
    downgraded.held().downgrade().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!downgraded.held().is_lost());
}
