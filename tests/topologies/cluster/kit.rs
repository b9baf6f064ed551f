//! The common code of the tests of locks in a cluster.

use std::sync::Arc;
use std::time::Duration;

use crate::support::cluster::SLOTS;
use crate::support::{Cluster, DEADLINE, RedisServer, Section, cluster, eventually, within};
use futures_util::future::join_all;
use redis::{FromRedisValue, cmd};
use reentry::{Locks, LocksBuilder};
use tokio::task::JoinHandle;

/// The maximum time for any operation: a failover, and everything after it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A TTL that is much longer than a failover.
pub(super) const TTL: Duration = Duration::from_secs(30);

/// The value to which a lease is shortened, so that a renewal is visible. It is longer than a failover too.
pub(super) const CUT: Duration = Duration::from_secs(24);

/// Locks in the cluster, with the usual timeouts, that know every node.
pub(super) fn locks_in(cluster: &Cluster) -> LocksBuilder {
    let url = format!("redis+cluster://{}", cluster.seeds());
    let builder = Locks::builder(url).ttl(TTL).wait(PATIENCE);
    builder.outage(PATIENCE)
}

/// Locks that do not treat a pause of a busy machine as a failure.
pub(crate) fn patient_in(cluster: &Cluster) -> LocksBuilder {
    let builder = locks_in(cluster).connect_timeout(DEADLINE);
    builder.response_timeout(DEADLINE)
}

/// A cluster in which no replica takes over within a test.
pub(super) async fn without_failovers() -> Cluster {
    let cluster = Cluster::start_with(cluster::Config {
        node_timeout: Duration::from_secs(120),
        ..cluster::Config::default()
    });
    cluster.await
}

/// A key in a slot that this primary has at the start.
pub(super) async fn key_on(cluster: &Cluster, node: usize) -> String {
    another_key_on(cluster, node, 0).await
}

/// A key on this node, after this number of others.
pub(super) async fn another_key_on(cluster: &Cluster, node: usize, others: usize) -> String {
    let start = |node: usize| node * usize::from(SLOTS) / 3;
    let slots = start(node)..start(node + 1);
    let mut found = 0;
    for number in 0.. {
        let key = format!("order:{number}");
        if slots.contains(&usize::from(cluster.slot_of(&key).await)) {
            if found == others {
                return key;
            }
            found += 1;
        }
    }
    unreachable!("every slot has keys")
}

/// A key on each of the three primaries.
pub(super) async fn keys(cluster: &Cluster) -> Vec<String> {
    join_all((0..3).map(|node| key_on(cluster, node))).await
}

/// The number of times that the server has executed a command.
pub(super) async fn calls(node: &RedisServer, command: &str) -> u64 {
    let calls = node.commandstats().await;
    calls.get(command).copied().unwrap_or_default()
}

/// The number of scripts that it has executed.
pub(super) async fn scripts(node: &RedisServer) -> u64 {
    calls(node, "evalsha").await + calls(node, "eval").await
}

/// Waits until the servers together have returned this error more than this number of times.
pub(super) async fn until_error(nodes: &[&RedisServer], code: &str, before: u64) {
    let answered = async || errors(nodes, code).await > before;
    eventually(PATIENCE, &format!("an answer {code}"), answered).await;
}

/// The number of times that these servers have returned this error.
pub(super) async fn errors(nodes: &[&RedisServer], code: &str) -> u64 {
    let mut errors = 0;
    for node in nodes {
        errors += node.errors(code).await;
    }
    errors
}

/// Asks a server to which a slot is being moved for a key that has moved.
pub(super) async fn asking<T: FromRedisValue>(node: &RedisServer, command: &str, key: &str) -> T {
    let mut connection = node.connection().await;
    let asking = cmd("ASKING").exec_async(&mut connection).await;
    asking.expect("an answer to ASKING");
    let answer = cmd(command).arg(key).query_async(&mut connection).await;
    answer.expect("an answer about the key")
}

/// Makes the lease shorter than a renewal would.
pub(super) async fn cut_lease(node: &RedisServer, key: &str) {
    let cut = format!("PEXPIRE {key} {}", CUT.as_millis());
    assert_eq!(node.ask(&cut).await, "1");
}

/// Returns whether a lease of this number of milliseconds was renewed after it was shortened.
pub(super) fn is_renewed(pttl: i64) -> bool {
    Duration::from_millis(u64::try_from(pttl).unwrap_or_default()) > CUT
}

/// Waits until the lease that was shortened is renewed.
pub(super) async fn until_renewed(node: &RedisServer, key: &str) {
    let renewed = async || {
        let pttl = node.ask(&format!("PTTL {key}")).await;
        is_renewed(pttl.parse().expect("milliseconds"))
    };
    eventually(PATIENCE, "the lease is renewed", renewed).await;
}

/// Waits until this number of processes is in the queue of a lock. A server that has just taken over may reject the
/// request.
pub(super) async fn until_queued(node: &RedisServer, key: &str, count: u64) {
    let queued = format!("ZCARD reentry:queue:{{{key}}}:{key}");
    let count_there = async || node.try_ask(&queued).await.ok();
    let standing = async || count_there().await == Some(count.to_string());
    eventually(PATIENCE, &format!("{count} in the queue"), standing).await;
}

/// Waits until the server considers the cluster down.
pub(super) async fn until_down(node: &RedisServer) {
    let down = async || {
        node.ask("CLUSTER INFO")
            .await
            .contains("cluster_state:fail")
    };
    eventually(PATIENCE, "the node is down", down).await;
}

/// Waits until the lock is on the server, or until it is not.
pub(super) async fn until_there(node: &RedisServer, key: &str, is_there: bool) {
    let exists = format!("EXISTS {key}");
    let there = async || node.ask(&exists).await == u8::from(is_there).to_string();
    eventually(PATIENCE, &format!("{key}: {is_there}"), there).await;
}

/// A caller that waits for its turn.
pub(super) fn caller(locks: &Locks, key: &str, section: &Arc<Section>) -> JoinHandle<()> {
    let section = Arc::clone(section);
    let turn = locks.with_lock(key, async move { section.visit().await });
    tokio::spawn(async move { turn.await.expect("its turn") })
}

/// Waits until all of them have had their turns.
pub(super) async fn all_turns(callers: impl IntoIterator<Item = JoinHandle<()>>) {
    let turns = within(PATIENCE, "all have their turns", join_all(callers)).await;
    turns.into_iter().for_each(|turn| turn.expect("a turn"));
}

/// Waits until no running node has any data of a lock.
pub(super) async fn until_nothing_is_left(cluster: &Cluster) {
    let empty = async || {
        let running = cluster.nodes.iter().filter(|node| node.is_running());
        let left = join_all(running.map(RedisServer::leftovers)).await;
        left.iter().all(Vec::is_empty)
    };
    eventually(PATIENCE, "nothing is left", empty).await;
}
