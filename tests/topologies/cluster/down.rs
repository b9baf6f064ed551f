//! A cluster that is down as a whole, and a node that believes that it is.

use std::sync::Arc;

use super::kit::{
    PATIENCE, all_turns, caller, key_on, keys, locks_in, until_down, until_error,
    until_nothing_is_left, until_there,
};
use crate::support::cluster::Config;
use crate::support::{Cluster, RedisServer, Section, eventually, processes, within};

/// A primary and its replica are dead, and the others reject requests without them.
#[tokio::test]
async fn a_cluster_that_is_down_is_waited_for() {
    let cluster = Cluster::start().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let keys = keys(&cluster).await;
    let guard = locks.lock(&keys[2]).await.unwrap();
    cluster.nodes[cluster.replica_of(0).await].stop();
    cluster.nodes[0].stop();
    until_down(&cluster.nodes[1]).await;
    for key in &keys {
        let once = other.lock(key).no_wait().acquire();
        let error = within(PATIENCE, "the refusal", once).await.unwrap_err();
        assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
    }
    let section = Arc::<Section>::default();
    let waiting = keys
        .iter()
        .take(2)
        .map(|key| caller(&other, key, &Arc::default()));
    let mut waiting: Vec<_> = waiting.collect();
    waiting.push(caller(&other, &keys[2], &section));
    // Nested entries of a lock that is held wait as well.
    let before = cluster.nodes[2].errors("CLUSTERDOWN").await;
    let nested = tokio::spawn({
        let (locks, key) = (locks.clone(), keys[2].clone());
        async move {
            let outcome = guard.scope(locks.with_lock(&key, async {})).await;
            (guard, outcome)
        }
    });
    until_error(&[&cluster.nodes[2]], "CLUSTERDOWN", before).await;
    for node in &cluster.nodes {
        if !node.is_running() {
            node.start_again().await;
        }
    }
    let (guard, outcome) = within(PATIENCE, "a nested entry", nested).await.unwrap();
    outcome.unwrap().unwrap();
    assert!(!guard.held().is_lost() && section.visits() == 0);
    guard.release().await.unwrap();
    all_turns(waiting).await;
    until_nothing_is_left(&cluster).await;
}

/// A cluster whose nodes can be cut off from each other.
async fn divisible() -> Cluster {
    // Servers before 7.0 do not know the option, and do not need one.
    let is_old = RedisServer::start().await.is_old().await;
    let nodes: &[&str] = match is_old {
        true => &[],
        false => &["--enable-debug-command", "local"],
    };
    Cluster::start_with(Config {
        nodes,
        ..Config::default()
    })
    .await
}

/// From now on the node receives nothing from the others.
async fn cut_off(node: &RedisServer) {
    let debug = node.try_ask("DEBUG HELP").await.unwrap_or_default();
    if debug.contains("-2 to drop all packets") {
        node.ask("DEBUG DROP-CLUSTER-PACKET-FILTER -2").await;
        return;
    }
    // Later servers would inform the others, which would forget each other as well.
    let nodes = node.ask("CLUSTER NODES").await;
    for other in nodes.lines().filter(|it| !it.contains("myself")) {
        let id = other.split(' ').next().unwrap();
        node.ask(&format!("CLUSTER FORGET {id}")).await;
    }
}

/// The node does not learn that its replica has taken over. It responds that the cluster is down, and would do so for
/// ever.
#[tokio::test]
async fn a_node_that_is_cut_off_from_the_others_is_left() {
    let cluster = divisible().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, 0).await;
    let guard = locks.lock(&key).await.unwrap();
    let old = &cluster.nodes[0];
    let replica = cluster.replica_of(0).await;
    let new = &cluster.nodes[replica];
    until_there(old, &key, true).await;
    old.until_replicated_to(new).await;
    cut_off(old).await;
    until_down(old).await;
    new.ask("CLUSTER FAILOVER TAKEOVER").await;
    let has_taken_over = async || new.is_primary().await;
    eventually(PATIENCE, "the replica takes over", has_taken_over).await;
    let section = Arc::<Section>::default();
    let waiting = [&other, &locks].map(|locks| caller(locks, &key, &section));
    super::kit::until_queued(new, &key, 2).await;
    assert!(!guard.held().is_lost() && section.visits() == 0);
    guard.release().await.unwrap();
    all_turns(waiting).await;
    assert!(new.leftovers().await.is_empty());
}
