//! The number of requests to the other servers of a cluster while it is down, or one of them is unavailable.

use std::time::Duration;

use super::kit::{PATIENCE, all_turns, caller, key_on, locks_in, until_down};
use crate::support::cluster::Config;
use crate::support::load::{Load, assert_rate};
use crate::support::{Cluster, RedisServer, within};
use futures_util::future::join_all;
use reentry::{LockError, Locks};
use std::sync::Arc;

/// Callers that each want a lock, or have it.
const MANY: usize = 500;

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|number| format!("order:{number}"))
}

/// Lasts as long as a caller waits in vain. In the meantime the running servers get a few requests per second, after
/// this number of commands at the beginning.
async fn outage(cluster: &Cluster, locks: &Locks, key: String, at_first: u64) {
    let running: Vec<&RedisServer> = cluster.nodes.iter().filter(|it| it.is_running()).collect();
    let before = Load::of(&running).await;
    let waiting = locks.lock(key).wait(Duration::from_secs(4)).acquire();
    let error = within(PATIENCE, "the wait ends", waiting).await;
    assert!(error.unwrap_err().is_unavailable());
    let (connections, commands, length) = before.so_far(&running).await;
    assert_rate("connections", connections, 5, length, 20);
    assert_rate("commands", commands, 50, length, 200 + at_first);
}

async fn start_again(cluster: &Cluster) {
    for node in &cluster.nodes {
        if !node.is_running() {
            node.start_again().await;
        }
    }
}

#[tokio::test]
async fn a_cluster_that_is_down_is_asked_a_few_times_a_second() {
    let cluster = Cluster::start().await;
    let locks = locks_in(&cluster).build().await.unwrap();
    let key = key_on(&cluster, 1).await;
    cluster.nodes[cluster.replica_of(0).await].stop();
    cluster.nodes[0].stop();
    until_down(&cluster.nodes[1]).await;
    until_down(&cluster.nodes[2]).await;
    let callers = names().map(|key| caller(&locks, &key, &Arc::default()));
    let callers: Vec<_> = callers.collect();
    // Each of them has sent one request when it joined.
    outage(&cluster, &locks, key, 3 * MANY as u64).await;
    start_again(&cluster).await;
    all_turns(callers).await;
}

#[tokio::test]
async fn the_others_are_asked_a_few_times_a_second_while_one_is_away() {
    let cluster = Cluster::start_with(Config {
        node_timeout: Duration::from_secs(120),
        ..Config::default()
    });
    let cluster = cluster.await;
    let locks = locks_in(&cluster).build().await.unwrap();
    let key = key_on(&cluster, 0).await;
    let held = join_all(names().map(|key| locks.lock(key).acquire())).await;
    // Each hold is verified, on the others at once.
    cluster.nodes[0].stop();
    outage(&cluster, &locks, key, 8 * MANY as u64).await;
    start_again(&cluster).await;
    // The locks that it had are lost with its data.
    let releases = held.into_iter().map(|guard| guard.unwrap().release());
    let released = within(PATIENCE, "all releases", join_all(releases)).await;
    let is_known = |it: &Result<(), LockError>| it.as_ref().err().is_none_or(LockError::is_lost);
    assert!(released.iter().all(is_known), "{released:?}");
}
