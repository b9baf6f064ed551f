//! Readers, permits, deadlocks, inspections and forced releases, when the locks are on several nodes.

use std::sync::Arc;
use std::time::Duration;

use super::kit::{PATIENCE, all_turns, caller, calls, keys, patient_in, until_nothing_is_left};
use crate::support::{Cluster, Section, eventually, processes, within};
use futures_util::future::join_all;
use tokio::sync::Barrier;

/// Each of three processes holds a lock on one node, and waits for the one on the next.
#[tokio::test]
async fn a_ring_over_several_nodes_is_found() {
    let cluster = Cluster::start().await;
    let heartbeat = Duration::from_millis(300);
    let processes: [_; 3] = processes(&patient_in(&cluster).__heartbeat(heartbeat)).await;
    let keys = keys(&cluster).await;
    let all_hold = Barrier::new(3);
    let nest = |(at, locks): (usize, &reentry::Locks)| {
        let (outer, inner) = (locks.lock(&keys[at]), locks.lock(&keys[(at + 1) % 3]));
        let all_hold = &all_hold;
        outer.try_run(async move {
            all_hold.wait().await;
            inner.run(async {}).await
        })
    };
    let cycle = join_all(processes.iter().enumerate().map(nest));
    let results = within(PATIENCE, "the cycle is broken", cycle).await;
    let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(
        matches!(errors.as_slice(), [error] if error.is_deadlock()),
        "{errors:?}"
    );
    until_nothing_is_left(&cluster).await;
}

/// None of its connections outlives it, on any node. A closed one opens no connection any more.
#[tokio::test]
async fn a_closed_or_dropped_locks_leaves_no_connection() {
    let cluster = Cluster::start().await;
    let keys = keys(&cluster).await;
    let connected = async || {
        let connected = cluster.nodes.iter().map(|node| calls(node, "hello"));
        join_all(connected).await
    };
    let none = async || {
        let commands = cluster.nodes.iter().map(|node| node.command_connections());
        let commands = join_all(commands).await;
        let inboxes = join_all(cluster.nodes.iter().map(|node| node.subscriptions())).await;
        commands.iter().sum::<usize>() == 0 && inboxes.iter().all(Vec::is_empty)
    };
    for is_closed in [true, false] {
        let locks = patient_in(&cluster).build().await.unwrap();
        for key in &keys {
            let guard = locks.lock(key).await.unwrap();
            let section = Arc::<Section>::default();
            let waiting = caller(&locks, key, &section);
            guard.release().await.unwrap();
            all_turns([waiting]).await;
        }
        if is_closed {
            assert!(locks.close(Duration::MAX).await.is_clean());
            eventually(PATIENCE, "no connection is left", none).await;
            let before = connected().await;
            assert!(locks.admin().inspect(&keys[0]).await.is_err());
            assert_eq!(connected().await, before);
        }
    }
    eventually(PATIENCE, "no connection is left", none).await;
    let alone = async || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
            == 0
    };
    eventually(PATIENCE, "no task is left", alone).await;
    until_nothing_is_left(&cluster).await;
}
