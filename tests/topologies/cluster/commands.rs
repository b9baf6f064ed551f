//! The cost of a lock for the servers of a cluster, as counted by them. It equals the cost for one server.

use std::time::Duration;

use super::kit::{PATIENCE, keys, patient_in};
use crate::support::stats::Calls;
use crate::support::{Cluster, RedisServer, eventually, patient};
use futures_util::future::join_all;
use reentry::Locks;

/// The commands that clients send. Scripts, replication and the nodes themselves call other commands.
const SENT: &str = "eval evalsha script|load asking cluster|slots cluster|nodes cluster|shards subscribe \
                    unsubscribe readonly ping multi";

/// The commands that clients have sent to these servers. A replica executes what its primary has executed, and the
/// primary checks whether it responds. So only a part of the commands of replicas counts.
async fn sent(servers: &[RedisServer]) -> Calls {
    let mut sent = Calls::new();
    for (place, calls) in join_all(servers.iter().map(RedisServer::commandstats))
        .await
        .into_iter()
        .enumerate()
    {
        let is_replica = place >= 3;
        let of_replication = |name: &str| is_replica && ["ping", "multi"].contains(&name);
        for (name, count) in calls {
            if SENT.split(' ').any(|sent| sent == name) && !of_replication(&name) {
                *sent.entry(name).or_default() += count;
            }
        }
    }
    sent
}

/// The commands that were sent since the start.
fn since(before: &Calls, after: Calls) -> Calls {
    let more = after.into_iter().map(|(name, count)| {
        let earlier = before.get(&name).copied().unwrap_or_default();
        (name, count - earlier)
    });
    more.filter(|&(_, count)| count > 0).collect()
}

/// Everything that a lock does except waiting.
async fn sections(locks: &Locks, keys: &[String]) {
    for key in keys {
        locks.with_lock(key, async {}).await.unwrap();
        locks.lock(key).no_wait().run(async {}).await.unwrap();
        let nested = locks.with_lock(key, async {});
        locks.with_lock(key, nested).await.unwrap().unwrap();
        locks.lock(key).read().run(async {}).await.unwrap();
        locks.semaphore(key, 3).run(async {}).await.unwrap();
        let guard = locks.lock(key).await.unwrap();
        assert!(locks.admin().inspect(key).await.unwrap().is_some());
        let busy = locks.lock(key).no_wait().await.unwrap_err();
        assert!(busy.is_busy());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_section_costs_what_it_costs_on_one_server() {
    let cluster = Cluster::start().await;
    let server = RedisServer::start().await;
    let keys = keys(&cluster).await;
    let one = patient(&server).build().await.unwrap();
    let many = patient_in(&cluster).build().await.unwrap();
    sections(&one, &keys).await;
    sections(&many, &keys).await;
    let servers = [server];
    let (of_one, of_many) = (sent(&servers).await, sent(&cluster.nodes).await);
    let mut moved = 0;
    for node in &cluster.nodes {
        moved += node.errors("MOVED").await;
    }
    for _ in 0..10 {
        sections(&one, &keys).await;
        sections(&many, &keys).await;
    }
    let of_one = since(&of_one, sent(&servers).await);
    assert_eq!(since(&of_many, sent(&cluster.nodes).await), of_one);
    assert_eq!(of_one.keys().collect::<Vec<_>>(), ["evalsha"]);
    for node in &cluster.nodes {
        moved -= node.errors("MOVED").await;
    }
    assert_eq!(moved, 0, "a request went to the wrong server");
}

/// The number of scripts that were sent to the primaries, and the number of holds that renewals have checked there.
async fn renewed(cluster: &Cluster) -> (u64, u64) {
    let mut sums = (0, 0);
    for node in &cluster.nodes[..3] {
        let calls = node.commandstats().await;
        let of = |name: &str| calls.get(name).copied().unwrap_or_default();
        sums = (sums.0 + of("evalsha"), sums.1 + of("hexists"));
    }
    sums
}

#[tokio::test]
async fn renewals_of_one_slot_share_requests_and_none_names_two_slots() {
    let cluster = Cluster::start().await;
    let locks = patient_in(&cluster).ttl(Duration::from_secs(9));
    let locks = locks.build().await.unwrap();
    let together = (0..40).map(|number| format!("{{one}}:{number}"));
    let apart = (0..20).map(|number| format!("order:{number}"));
    let guards = together.chain(apart).map(|key| locks.lock(key).acquire());
    let guards = join_all(guards).await;
    let before = renewed(&cluster).await;
    let all_renewed = async || renewed(&cluster).await.1 >= before.1 + 3 * 60;
    eventually(PATIENCE, "each was renewed three times", all_renewed).await;
    let after = renewed(&cluster).await;
    let (scripts, holds) = (after.0 - before.0, after.1 - before.1);
    assert!(scripts + 60 < holds, "{scripts} scripts for {holds} holds");
    for node in &cluster.nodes {
        assert_eq!(node.errors("CROSSSLOT").await, 0);
    }
    for guard in guards {
        guard.unwrap().release().await.unwrap();
    }
}
