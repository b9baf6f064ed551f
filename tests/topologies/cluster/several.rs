//! Several locks on several nodes: either all of them, or none.

use std::time::Duration;

use super::kit::{
    PATIENCE, another_key_on, keys, locks_in, patient_in, until_nothing_is_left, until_there,
    without_failovers,
};
use crate::support::{Cluster, processes, within};
use futures_util::future::join_all;

/// Two keys on each primary.
async fn six_keys(cluster: &Cluster) -> Vec<String> {
    let keys = (0..6).map(|at| another_key_on(cluster, at % 3, at / 3));
    join_all(keys).await
}

#[tokio::test]
async fn lock_all_across_slots_acquires_all_or_none() {
    let cluster = Cluster::start().await;
    let [locks, other] = processes(&patient_in(&cluster)).await;
    let keys = six_keys(&cluster).await;
    for (at, busy) in keys.iter().enumerate() {
        let guard = other.lock(busy).await.unwrap();
        let once = locks.lock_all(&keys).no_wait().acquire().await;
        assert!(once.unwrap_err().is_busy());
        for (other, key) in keys.iter().enumerate() {
            until_there(&cluster.nodes[other % 3], key, other == at).await;
        }
        guard.release().await.unwrap();
    }
    let all = locks.lock_all(&keys).acquire().await.unwrap();
    for (at, key) in keys.iter().enumerate() {
        until_there(&cluster.nodes[at % 3], key, true).await;
    }
    assert!(all.all().iter().all(|held| held.depth() == 1));
    all.release().await.unwrap();
    until_nothing_is_left(&cluster).await;
}

#[tokio::test]
async fn a_node_that_is_silent_withholds_neither_output_nor_locks() {
    let cluster = without_failovers().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let keys = keys(&cluster).await;
    let silent = &cluster.nodes[1];
    let body = async {
        silent.pause();
        7
    };
    let body = locks.lock_all(&keys).run(body);
    assert_eq!(within(PATIENCE, "the output", body).await.unwrap(), 7);
    // The others are released in the meantime.
    until_there(&cluster.nodes[0], &keys[0], false).await;
    until_there(&cluster.nodes[2], &keys[2], false).await;

    // A caller that cannot have all of them has none in the end.
    let soon = other.lock_all(&keys).wait(Duration::from_millis(500));
    let error = within(PATIENCE, "the limit", soon.acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    until_there(&cluster.nodes[0], &keys[0], false).await;
    until_there(&cluster.nodes[2], &keys[2], false).await;

    let waiting = other.lock_all(&keys);
    let waiting = tokio::spawn(waiting.run(async { 8 }));
    silent.resume();
    let output = within(PATIENCE, "all locks", waiting).await.unwrap();
    assert_eq!(output.unwrap(), 8);
    until_nothing_is_left(&cluster).await;
}
