//! The test support itself: a primary with replicas and sentinels.

use crate::support::{RedisServer, SentinelSet, sentinel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How the server answers a client that says no password.
async fn told_to_a_stranger(server: &RedisServer) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// What another primary than `node` has under `key`, when it has been killed and replaced.
async fn after_its_death(set: &SentinelSet, node: usize, key: &str) -> String {
    set.nodes[node].stop();
    let primary = set.until_failed_over(node).await;
    assert_eq!(set.primary().await, primary);
    set.nodes[primary].ask(&format!("GET {key}")).await
}

#[tokio::test]
async fn a_killed_primary_is_replaced_by_a_replica_with_its_writes() {
    let set = SentinelSet::start().await;
    assert_eq!(set.primary().await, 0);
    set.nodes[0].ask("SET key kept").await;
    for replica in &set.nodes[1..] {
        set.nodes[0].until_replicated_to(replica).await;
    }
    assert_eq!(after_its_death(&set, 0, "key").await, "kept");
}

#[tokio::test]
async fn writes_after_replication_was_cut_die_with_the_primary() {
    let set = SentinelSet::start().await;
    let primary = &set.nodes[0];
    primary.ask("SET key kept").await;
    primary.cut_replication().await;
    primary.ask("SET key lost").await;
    primary.restore_replication(2).await;
    for replica in &set.nodes[1..] {
        primary.until_replicated_to(replica).await;
        assert_eq!(replica.ask("GET key").await, "lost");
    }

    primary.cut_replication().await;
    primary.ask("SET other lost").await;
    assert_eq!(after_its_death(&set, 0, "other").await, "");
}

#[tokio::test]
async fn a_primary_that_is_told_to_fail_over_is_replaced() {
    let set = SentinelSet::start().await;
    let primary = set.failover().await;
    assert_ne!(primary, 0);
    set.nodes[primary].ask("SET key value").await;
    assert!(set.nodes[0].is_running());
}

#[tokio::test]
async fn a_set_with_passwords_fails_over_while_a_sentinel_is_down() {
    let mut set = SentinelSet::start_with(sentinel::Config {
        nodes: &["--requirepass", "data"],
        sentinels: &["--requirepass", "watch"],
        ..sentinel::Config::default()
    })
    .await;
    for server in set.nodes.iter().chain(&set.sentinels) {
        assert_eq!(told_to_a_stranger(server).await, "-NOAUTH");
    }
    assert_eq!(set.add_sentinel().await, 3);
    assert_eq!(set.addresses().split(',').count(), 4);
    set.sentinels[0].stop();
    set.nodes[0].pause();
    let primary = set.until_failed_over(0).await;
    assert_eq!(set.primary().await, primary);
}

#[tokio::test]
async fn a_replica_that_was_shut_down_comes_back_as_one() {
    let set = SentinelSet::start().await;
    set.nodes[1].shut_down().await;
    set.nodes[0].ask("SET key value").await;
    set.nodes[1].start_again().await;
    set.until_settled().await;
    set.nodes[0].until_replicated_to(&set.nodes[1]).await;
    assert_eq!(set.nodes[1].ask("GET key").await, "value");
}
