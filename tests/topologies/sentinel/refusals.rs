//! Servers that reject writes: NOREPLICAS and READONLY. The connection is given up, and the sentinels are asked again.

use super::ground::{PATIENCE, builder, depth, until_free};
use crate::support::rig::KEY;
use crate::support::{RedisServer, SentinelSet, eventually, within};

async fn until_refused_with(node: &RedisServer, code: &str) {
    let refused = async || node.errors_of_scripts(code).await > 0;
    eventually(PATIENCE, code, refused).await;
}

#[tokio::test]
async fn a_primary_without_replicas_is_replaced() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    set.nodes[0].ask("CONFIG SET min-replicas-to-write 1").await;
    set.nodes[0].cut_replication().await;
    let acquiring = tokio::spawn(locks.lock(KEY).acquire());
    until_refused_with(&set.nodes[0], "NOREPLICAS").await;
    let new = set.failover().await;
    let guard = within(PATIENCE, "it enters", acquiring).await;
    let guard = guard.unwrap().unwrap();
    assert_eq!(depth(&set.nodes[new], KEY).await, 1);
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

/// Sentinels may name a server that is not a primary, until they have noticed that.
#[tokio::test]
async fn a_server_that_is_no_primary_is_left_and_not_used_again_until_it_is_one() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    // No server listens there, so it keeps its data.
    set.nodes[0].ask("REPLICAOF 127.0.0.1 1").await;
    let acquiring = tokio::spawn(locks.lock(KEY).acquire());
    until_refused_with(&set.nodes[0], "READONLY").await;
    // The next attempts ask it for its role.
    let hello = async || {
        let calls = set.nodes[0].commandstats().await;
        calls.get("hello").copied().unwrap_or(0)
    };
    let before = hello().await;
    let asked = async || hello().await >= before + 6;
    eventually(PATIENCE, "it is asked what it is", asked).await;
    assert_eq!(set.nodes[0].errors_of_scripts("READONLY").await, 1);
    set.nodes[0].ask("REPLICAOF NO ONE").await;
    let guard = within(PATIENCE, "it enters", acquiring).await;
    guard.unwrap().unwrap().release().await.unwrap();
    until_free(&set.nodes[0]).await;
}
