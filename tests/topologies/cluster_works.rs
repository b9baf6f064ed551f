//! The test support itself: a cluster.

use crate::support::{Cluster, RedisServer, cluster};

const KEY: &str = "{order}:42";
const OTHER: &str = "{order}:43";

/// Where the node sends a client for this key.
async fn redirection(node: &RedisServer, key: &str) -> String {
    let answer = node.try_ask(&format!("GET {key}")).await;
    answer.expect_err("a redirection").to_string()
}

/// A cluster in which the owner of the slot of `KEY` has both keys, that slot, and its owner.
async fn with_keys(cluster: &Cluster) -> (u16, usize) {
    let slot = cluster.slot_of(KEY).await;
    let owner = cluster.owner_of(OTHER).await;
    cluster.nodes[owner].ask(&format!("SET {KEY} one")).await;
    cluster.nodes[owner].ask(&format!("SET {OTHER} two")).await;
    (slot, owner)
}

#[tokio::test]
async fn clients_are_redirected_while_a_slot_moves_and_after_it() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.seeds().split(',').count(), 6);
    let (slot, from) = with_keys(&cluster).await;
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
    let elsewhere = |word, node: &RedisServer| format!("-{word} {slot} {}", node.address());
    let told = redirection(new, KEY).await;
    assert!(told.ends_with(&elsewhere("MOVED", old)), "{told}");

    let moving = cluster.begin_move(slot, to).await;
    moving.move_keys(&[KEY]).await;
    let told = redirection(old, KEY).await;
    assert!(told.ends_with(&elsewhere("ASK", new)), "{told}");
    assert_eq!(old.ask(&format!("GET {OTHER}")).await, "two");
    let told = redirection(new, KEY).await;
    assert!(told.ends_with(&elsewhere("MOVED", old)), "{told}");

    moving.move_all_keys().await;
    moving.finish().await;
    assert_eq!(cluster.owner_of_slot(slot).await, to);
    let told = redirection(old, KEY).await;
    assert!(told.ends_with(&elsewhere("MOVED", new)), "{told}");
    assert_eq!(new.ask(&format!("GET {KEY}")).await, "one");
    assert_eq!(new.ask(&format!("GET {OTHER}")).await, "two");
}

#[tokio::test]
async fn a_killed_primary_of_a_cluster_is_replaced_by_its_replica() {
    let cluster = Cluster::start().await;
    let (slot, owner) = with_keys(&cluster).await;
    let replica = cluster.replica_of(owner).await;
    let primary = &cluster.nodes[owner];
    primary.until_replicated_to(&cluster.nodes[replica]).await;
    primary.cut_replication().await;
    primary.ask(&format!("SET {OTHER} lost")).await;
    primary.stop();
    assert_eq!(cluster.until_failed_over(slot, owner).await, replica);
    let successor = &cluster.nodes[replica];
    assert_eq!(successor.ask(&format!("GET {KEY}")).await, "one");
    assert_eq!(successor.ask(&format!("GET {OTHER}")).await, "two");

    primary.start_again().await;
    cluster.until_settled().await;
    assert_eq!(cluster.replica_of(replica).await, owner);
}

#[tokio::test]
async fn a_replica_that_is_told_to_takes_over_from_its_primary() {
    let cluster = Cluster::start_with(cluster::Config {
        nodes: &["--requirepass", "secret"],
        ..cluster::Config::default()
    })
    .await;
    let (slot, owner) = with_keys(&cluster).await;
    let replica = cluster.replica_of(owner).await;
    cluster.failover(replica).await;
    assert_eq!(cluster.owner_of(KEY).await, replica);
    cluster.until_settled().await;
    assert_eq!(cluster.replica_of(replica).await, owner);

    let to = (owner + 1) % 3;
    cluster.move_slot(slot, to).await;
    assert_eq!(cluster.nodes[to].ask(&format!("GET {OTHER}")).await, "two");
}

#[tokio::test]
async fn a_slot_moves_at_once_where_the_server_can() {
    let cluster = Cluster::start().await;
    let (slot, from) = with_keys(&cluster).await;
    let help = cluster.nodes[from].ask("CLUSTER HELP").await;
    let can = help.contains("MIGRATESLOTS") || help.contains("MIGRATION ");
    let to = (from + 1) % 3;
    assert_eq!(cluster.move_slot_at_once(slot, to).await, can);
    let owner = cluster.owner_of_slot(slot).await;
    assert_eq!(owner, if can { to } else { from });
    let node = &cluster.nodes[owner];
    assert_eq!(node.ask(&format!("GET {KEY}")).await, "one");
}

#[tokio::test]
async fn a_paused_primary_is_replaced_and_steps_down_when_it_wakes() {
    let cluster = Cluster::start().await;
    let (slot, owner) = with_keys(&cluster).await;
    cluster.nodes[owner].pause();
    let successor = cluster.until_failed_over(slot, owner).await;
    cluster.nodes[owner].resume();
    cluster.until_settled().await;
    assert!(!cluster.nodes[owner].is_primary().await);
    assert_eq!(cluster.owner_of_slot(slot).await, successor);
}
