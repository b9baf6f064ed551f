//! The test support itself: a cluster.

use crate::support::Cluster;

#[tokio::test]
async fn a_killed_primary_of_a_cluster_is_replaced() {
    let t = std::time::Instant::now();
    let cluster = Cluster::start().await;
    eprintln!("start {:?}", t.elapsed());
    let slot = cluster.slot_of("order:42").await;
    let owner = cluster.owner_of_slot(slot).await;
    cluster.nodes[owner].stop();
    let t = std::time::Instant::now();
    cluster.until_failed_over(slot, owner).await;
    eprintln!("over {:?}", t.elapsed());
}

#[tokio::test]
async fn moves() {
    let cluster = Cluster::start().await;
    let slot = cluster.slot_of("order:42").await;
    let owner = cluster.owner_of_slot(slot).await;
    let t = std::time::Instant::now();
    cluster.move_slot(slot, (owner + 1) % 3).await;
    eprintln!("moved {:?}", t.elapsed());
    let t = std::time::Instant::now();
    cluster.failover(cluster.replica_of(0).await).await;
    eprintln!("over {:?}", t.elapsed());
}
