//! Releases that a server answered, and did not replicate before it failed.

use std::time::Duration;

use redis::cmd;
use reentry::{Locks, LocksBuilder};

use crate::support::{Cluster, RedisServer, SentinelSet, patient_at, within};

const LONG: Duration = Duration::from_secs(60);

fn builder(url: String) -> LocksBuilder {
    // Without repetition the lock would be held for most of an hour.
    patient_at(url).ttl(Duration::from_secs(3_600)).wait(LONG)
}

/// Enters another lock on the new primary through these locks. After that, another process finds `order:42` free there.
async fn is_free_after_failover(locks: &Locks, beside: &str, url: String) {
    within(LONG, "the new primary has heard of the release", async {
        let entered = locks.with_lock(beside, async {}).await;
        entered.expect("a new primary");
    })
    .await;
    let other = builder(url).build().await.expect("the servers");
    let entered = other.lock("order:42").no_wait().run(async {}).await;
    entered.expect("it is free");
}

#[tokio::test]
async fn a_release_that_no_replica_has_is_repeated_at_the_new_primary() {
    let set = SentinelSet::start().await;
    let url = format!("redis+sentinel://{}/orders", set.addresses());
    let locks = builder(url.clone()).build().await.expect("a primary");
    let held = locks.lock("order:42").await.expect("the lock");
    for replica in &set.nodes[1..] {
        set.nodes[0].until_replicated_to(replica).await;
    }
    set.nodes[0].cut_replication().await;
    held.release().await.expect("it was held");
    set.nodes[0].stop();
    is_free_after_failover(&locks, "order:7", url).await;
}

#[tokio::test]
async fn so_it_is_in_a_cluster() {
    let cluster = Cluster::start().await;
    let url = format!("redis+cluster://{}", cluster.seeds());
    let locks = builder(url.clone()).build().await.expect("a cluster");
    let held = locks.lock("order:42").await.expect("the lock");
    let slot = cluster.slot_of("order:42").await;
    let owner = cluster.owner_of_slot(slot).await;
    let replica = cluster.replica_of(owner).await;
    let primary = &cluster.nodes[owner];
    primary.until_replicated_to(&cluster.nodes[replica]).await;
    primary.cut_replication().await;
    held.release().await.expect("it was held");
    primary.stop();
    is_free_after_failover(&locks, "{order:42}:7", url).await;
}

/// No connection ends visibly here, and no failover is reported. Still the server is another one.
#[tokio::test]
async fn a_hold_is_verified_at_a_server_with_another_history() {
    let server = RedisServer::start().await;
    let locks = builder(server.url()).response_timeout(Duration::from_millis(500));
    let locks = locks.build().await.expect("a server");
    let held = locks.lock("order:42").await.expect("the lock");
    // This is like a failover behind one address: the data is that of another server.
    server.ask("REPLICAOF 127.0.0.1 1").await;
    server.ask("REPLICAOF NO ONE").await;
    server.ask("DEL order:42").await;
    let mut connection = server.connection().await;
    let pause = cmd("CLIENT").arg("PAUSE").arg(3_000).arg("ALL").to_owned();
    let () = pause.query_async(&mut connection).await.expect("a pause");
    // This request is not answered in time, so the connection is given up without having ended.
    let other = locks.lock("order:7").no_wait().acquire().await;
    assert!(other.is_err_and(|error| error.is_unavailable()));
    within(LONG, "the hold is verified", held.held().lost()).await;
}
