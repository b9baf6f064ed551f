//! Futures that are dropped, and runtimes that end, while requests search for their server.

use std::sync::Arc;
use std::time::Duration;

use super::kit::{PATIENCE, all_turns, caller, key_on, keys, locks_in, until_nothing_is_left};
use crate::support::sweep::poll_times;
use crate::support::{Cluster, RedisServer, cluster, processes, within};
use reentry::{Locks, LocksBuilder};
use tokio::runtime::Builder;

/// The slot has moved since the last request, so the first request is redirected. The future is dropped after each of
/// its polls.
/// polls.
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

/// The node of the slot is dead, and its replica takes over in the end.
#[tokio::test]
async fn callers_that_are_dropped_during_a_failover_leave_nothing() {
    let cluster = Cluster::start().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, 0).await;
    let slot = cluster.slot_of(&key).await;
    locks.with_lock(&key, async {}).await.unwrap();
    cluster.nodes[0].stop();
    let polls = async {
        for times in 1.. {
            let polled = poll_times(times % 10, locks.with_lock(&key, async {}));
            if within(PATIENCE, "its polls", polled).await.is_some() {
                return;
            }
        }
    };
    within(PATIENCE, "one gets in", polls).await;
    cluster.until_failed_over(slot, 0).await;
    all_turns([&locks, &other].map(|locks| caller(locks, &key, &Arc::default()))).await;
    until_nothing_is_left(&cluster).await;
}

/// Builds locks, and uses a lock on each node, on a runtime that ends after that.
async fn from_another_runtime(builder: LocksBuilder, keys: &[String]) -> Locks {
    let keys = keys.to_vec();
    let work = move || {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let locks = builder.build().await.expect("locks");
            for key in &keys {
                let guard = locks.lock(key).await.expect("a lock");
                let waiting = caller(&locks, key, &Arc::default());
                guard.release().await.expect("a release");
                all_turns([waiting]).await;
            }
            // A hold that ends with the runtime, or its request, may remain.
            drop(tokio::spawn(
                locks.with_lock(&keys[0], std::future::pending::<()>()),
            ));
            locks
        })
    };
    let worked = tokio::task::spawn_blocking(work);
    within(PATIENCE, "the other runtime", worked).await.unwrap()
}

#[tokio::test]
async fn connections_of_a_runtime_that_has_ended_are_made_anew() {
    let cluster = Cluster::start().await;
    let keys = keys(&cluster).await;
    let locks = from_another_runtime(locks_in(&cluster).ttl(Duration::from_secs(2)), &keys).await;
    for key in &keys {
        let turns = [(); 3].map(|()| caller(&locks, key, &Arc::default()));
        all_turns(turns).await;
    }
    until_nothing_is_left(&cluster).await;
}

/// The runtime has ended while the map was being learnt, from a server that is silent.
#[tokio::test]
async fn a_map_that_a_runtime_was_learning_is_learnt_by_the_next_one() {
    let cluster = Cluster::start_with(cluster::Config {
        node_timeout: Duration::from_secs(120),
        ..cluster::Config::default()
    })
    .await;
    let keys = keys(&cluster).await;
    let locks = locks_in(&cluster).build_lazy().unwrap();
    cluster.nodes.iter().for_each(RedisServer::pause);
    let first = {
        let (locks, key) = (locks.clone(), keys[0].clone());
        move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let polled = poll_times(2, locks.with_lock(&key, async {}));
                let polled = tokio::time::timeout(Duration::from_millis(200), polled).await;
                assert!(!matches!(polled, Ok(Some(_))), "the servers are silent");
            });
        }
    };
    tokio::task::spawn_blocking(first).await.unwrap();
    cluster.nodes.iter().for_each(RedisServer::resume);
    for key in &keys {
        all_turns([caller(&locks, key, &Arc::default())]).await;
    }
    until_nothing_is_left(&cluster).await;
}
