//! One node is unavailable. The locks on the others work as if nothing had happened.

use std::sync::Arc;

use super::kit::{
    PATIENCE, all_turns, caller, keys, patient_in, until_nothing_is_left, without_failovers,
};
use crate::support::{Section, processes, within};
use reentry::Locks;

/// Sections on two nodes.
async fn sections(locks: &Locks, keys: &[String]) {
    for _ in 0..50 {
        for key in keys {
            let section = locks.with_lock(key, async {});
            within(PATIENCE, "a section elsewhere", section)
                .await
                .unwrap();
        }
    }
}

/// Holds on other nodes are verified, and stay.
#[tokio::test]
async fn locks_elsewhere_go_on_while_a_node_is_silent_or_dead() {
    let cluster = without_failovers().await;
    let [locks, other] = processes(&patient_in(&cluster)).await;
    let keys = keys(&cluster).await;
    sections(&locks, &keys).await;
    for key in &keys {
        // A request that meets one for the map of the slots travels in a batch. From here on every node has loaded the
        // script.
        let beside = format!("{{{key}}}:beside");
        let both = locks.lock_all([key.clone(), beside]).run(async {});
        both.await.unwrap();
    }
    let mut held = Vec::new();
    for node in 1..3 {
        let key = super::kit::another_key_on(&cluster, node, 1).await;
        held.push(locks.lock(&key).await.unwrap());
    }
    let section = Arc::<Section>::default();

    cluster.nodes[0].pause();
    let pending = [&locks, &other].map(|locks| caller(locks, &keys[0], &section));
    sections(&locks, &keys[1..]).await;
    assert_eq!(section.visits(), 0, "the node that is paused has answered");
    assert!(pending.iter().all(|it| !it.is_finished()));

    cluster.nodes[0].stop();
    sections(&locks, &keys[1..]).await;
    assert!(pending.iter().all(|it| !it.is_finished()));
    for guard in &held {
        assert!(!guard.held().is_lost());
    }

    cluster.nodes[0].start_again().await;
    all_turns(pending).await;
    for guard in held {
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&cluster).await;
}
