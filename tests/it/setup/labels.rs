//! The label of a hold: who sees it, when it is stored, and that nothing of it remains.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, eventually, patient};
use reentry::{LockError, Locks, LocksBuilder};

const BEAT: Duration = Duration::from_millis(20);

/// A heartbeat that is very short, and leases that outlive a test.
fn builder(server: &RedisServer) -> LocksBuilder {
    patient(server)
        .__heartbeat(BEAT)
        .ttl(Duration::from_secs(60))
}

async fn label(locks: &Locks) -> Option<String> {
    let info = locks.inspect("report").await.unwrap()?;
    info.holders[0].label.clone()
}

async fn until_labelled(locks: &Locks) {
    let is_there = async || label(locks).await.is_some();
    eventually(DEADLINE, "the label is there", is_there).await;
}

async fn stored(server: &RedisServer) -> Vec<String> {
    let keys = server.ask("KEYS reentry:label:*").await;
    keys.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn whoever_looks_at_a_long_hold_or_waits_for_it_sees_its_label() {
    let server = RedisServer::start().await;
    let holder = builder(&server).build().await.unwrap();
    let other = builder(&server).build().await.unwrap();
    let guard = holder.lock("report").label("nightly export").await.unwrap();
    until_labelled(&other).await;
    assert_eq!(label(&other).await.as_deref(), Some("nightly export"));
    let late = other.lock("report").wait(Duration::from_millis(200)).await;
    let error = late.unwrap_err();
    assert!(error.to_string().contains("[nightly export]"), "{error}");
    let LockError::Timeout { holder: seen, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(seen.unwrap().label.as_deref(), Some("nightly export"));
    guard.release().await.unwrap();
    let is_gone = async || server.key_count().await == 0;
    eventually(DEADLINE, "nothing is left", is_gone).await;
}

#[tokio::test]
async fn a_label_lasts_as_long_as_the_lease_and_is_stored_again() {
    let server = RedisServer::start().await;
    let locks = builder(&server).ttl(Duration::from_secs(3));
    let locks = locks.build().await.unwrap();
    let _guard = locks.lock("report").label("export").await.unwrap();
    until_labelled(&locks).await;
    let [key] = &stored(&server).await[..] else {
        panic!("one hold");
    };
    let left: i64 = server.ask(&format!("PTTL {key}")).await.parse().unwrap();
    assert!((0..=3_000).contains(&left), "{left}");
    server.ask(&format!("DEL {key}")).await;
    until_labelled(&locks).await;
}

#[tokio::test]
async fn a_hold_that_is_shorter_than_a_heartbeat_sends_nothing_for_its_label() {
    let server = RedisServer::start().await;
    let locks = patient(&server).__heartbeat(Duration::from_secs(60));
    let locks = locks.ttl(Duration::from_secs(600)).build().await.unwrap();
    locks.with_lock("report", async {}).await.unwrap();
    let before = server.commandstats().await;
    for _ in 0..10 {
        let request = locks.lock("report").label("short");
        request.run(async {}).await.unwrap();
    }
    assert_eq!(server.calls_since(&before).await["evalsha"], 20);
    assert_eq!(stored(&server).await, [""; 0]);
}

#[tokio::test]
async fn the_builder_labels_each_lock_of_an_acquisition() {
    let server = RedisServer::start().await;
    let labels = |key: &str| (key != "quiet").then(|| format!("trace of {key}"));
    let locks = builder(&server).labels(labels).build().await.unwrap();
    let _guard = locks.lock_all(["report", "quiet"]).await.unwrap();
    until_labelled(&locks).await;
    assert_eq!(label(&locks).await.as_deref(), Some("trace of report"));
    assert_eq!(stored(&server).await.len(), 1);
}

#[tokio::test]
async fn a_label_changes_no_terminal_and_is_cut() {
    let server = RedisServer::start().await;
    let locks = builder(&server).build().await.unwrap();
    let text = format!("a\x1b[2J{}", "x".repeat(1_000));
    let _guard = locks.lock("report").label(text).await.unwrap();
    until_labelled(&locks).await;
    let label = label(&locks).await.unwrap();
    assert!(label.starts_with("a\u{fffd}[2Jx"), "{label}");
    assert_eq!(label.chars().count(), 100);
}

#[tokio::test]
async fn a_label_that_the_server_refuses_changes_nothing_else() {
    let server = RedisServer::start().await;
    server.ask("ACL SETUSER default -set").await;
    let locks = builder(&server).ttl(Duration::from_millis(300));
    let locks = locks.build().await.unwrap();
    let guard = locks.lock("report").label("export").await.unwrap();
    let is_rejected = async || {
        let stats = server.ask("INFO commandstats").await;
        let set = stats.lines().find(|line| line.starts_with("cmdstat_set:"));
        set.is_some_and(|set| !set.contains("rejected_calls=0,"))
    };
    eventually(DEADLINE, "a label is rejected", is_rejected).await;
    assert!(!guard.held().is_lost());
    guard.release().await.unwrap();
}
