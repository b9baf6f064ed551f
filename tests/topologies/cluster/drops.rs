//! Futures that are dropped while requests search for their server, and a `Locks` that is dropped or closed.

use std::sync::Arc;
use std::time::Duration;

use super::kit::{
    PATIENCE, all_turns, caller, calls, key_on, keys, locks_in, patient_in, until_nothing_is_left,
};
use crate::support::sweep::poll_times;
use crate::support::{Cluster, Section, eventually, processes, within};
use futures_util::future::join_all;

/// The slot has moved since the last request, so the first request is redirected. The future is dropped after each of
/// its polls.
#[tokio::test]
async fn a_caller_that_is_dropped_while_it_is_redirected_leaves_nothing() {
    let cluster = Cluster::start().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, 0).await;
    let slot = cluster.slot_of(&key).await;
    locks.with_lock(&key, async {}).await.unwrap();
    for times in 1.. {
        cluster.move_slot(slot, times % 2).await;
        let polled = poll_times(times, locks.with_lock(&key, async {}));
        let polled = within(PATIENCE, "its polls", polled).await;
        all_turns([caller(&other, &key, &Arc::default())]).await;
        if let Some(output) = polled {
            output.unwrap();
            assert!(times > 2, "it waits for its server");
            break;
        }
        all_turns([caller(&locks, &key, &Arc::default())]).await;
    }
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
