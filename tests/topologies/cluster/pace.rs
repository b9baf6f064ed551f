//! The number of requests to the other servers of a cluster while it is down.

use std::sync::Arc;
use std::time::Duration;

use super::kit::{PATIENCE, all_turns, caller, key_on, locks_in, until_down};
use crate::support::load::{Load, assert_rate};
use crate::support::{Cluster, within};

/// Callers that each want a lock.
const MANY: usize = 500;

#[tokio::test]
async fn a_cluster_that_is_down_is_asked_a_few_times_a_second() {
    let cluster = Cluster::start().await;
    let locks = locks_in(&cluster).build().await.unwrap();
    let key = key_on(&cluster, 1).await;
    let away = [0, cluster.replica_of(0).await].map(|node| &cluster.nodes[node]);
    away.iter().for_each(|node| node.stop());
    until_down(&cluster.nodes[1]).await;
    until_down(&cluster.nodes[2]).await;
    let names = (0..MANY).map(|number| format!("order:{number}"));
    let callers: Vec<_> = names
        .map(|key| caller(&locks, &key, &Arc::default()))
        .collect();
    let running: Vec<_> = cluster.nodes.iter().filter(|it| it.is_running()).collect();
    let before = Load::of(&running).await;
    let waiting = locks.lock(key).wait(Duration::from_secs(4)).acquire();
    let error = within(PATIENCE, "the wait ends", waiting).await;
    assert!(error.unwrap_err().is_unavailable());
    let (connections, commands, length) = before.so_far(&running).await;
    assert_rate("connections", connections, 5, length, 20);
    // Each of the callers has sent one request when it joined.
    assert_rate("commands", commands, 50, length, 200 + 3 * MANY as u64);
    for node in away {
        node.start_again().await;
    }
    all_turns(callers).await;
}
