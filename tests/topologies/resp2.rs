//! Sentinels and clusters without RESP3: a lock and its waiter outlive a failover.

use crate::cluster::kit::PATIENCE;
use crate::sentinel::ground::{built_at, url};
use crate::support::rig::KEY;
use crate::support::turns::RARELY;
use crate::support::{
    Cluster, SentinelSet, Turns, WITHOUT_HELLO, cluster, patient_at, processes, sentinel,
    until_queued,
};

async fn outlive_a_failover_behind_sentinels(set: &SentinelSet, query: &str) {
    let [holder, waiter] = processes(&built_at(url(set) + query).__heartbeat(RARELY)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.request(waiter.lock(KEY), "waiter");
    let [primary, replicas @ ..] = &set.nodes[..] else {
        panic!("no nodes");
    };
    until_queued(primary, 1).await;
    for replica in replicas {
        primary.until_replicated_to(replica).await;
    }
    primary.shut_down().await;
    set.until_failed_over(0).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
}

/// The sentinels use RESP3.
#[tokio::test]
async fn locks_outlive_a_failover_of_servers_that_refuse_resp3() {
    let set = SentinelSet::start_with(sentinel::Config {
        nodes: &WITHOUT_HELLO,
        ..sentinel::Config::default()
    });
    let set = set.await;
    outlive_a_failover_behind_sentinels(&set, "").await;
}

async fn outlive_a_failover_in_a_cluster(cluster: &Cluster, query: &str) {
    let url = format!("redis+cluster://{}{query}", cluster.seeds());
    let [holder, waiter] = processes(&patient_at(url).wait(PATIENCE).__heartbeat(RARELY)).await;
    let mut turns = Turns::default();
    for name in ["before", "after"] {
        let owner = cluster.owner_of(KEY).await;
        let guard = holder.lock(KEY).await.unwrap();
        turns.request(waiter.lock(KEY), name);
        until_queued(&cluster.nodes[owner], 1).await;
        guard.release().await.unwrap();
        assert_eq!(turns.names().await.last().unwrap(), name);
        if name == "before" {
            cluster.failover(cluster.replica_of(owner).await).await;
            let slot = cluster.slot_of(KEY).await;
            cluster.until_failed_over(slot, owner).await;
        }
    }
}

#[tokio::test]
async fn locks_outlive_a_failover_in_a_cluster_that_refuses_resp3() {
    let cluster = Cluster::start_with(cluster::Config {
        nodes: &WITHOUT_HELLO,
        ..cluster::Config::default()
    });
    outlive_a_failover_in_a_cluster(&cluster.await, "").await;
}
