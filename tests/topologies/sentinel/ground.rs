//! The common code of these tests: locks on the primary of a set, and inspections of its nodes.

use std::time::{Duration, Instant};

use crate::support::clients::TO_ALL;
use crate::support::rig::KEY;
use crate::support::sentinel::NAME;
use crate::support::{DEADLINE, RedisServer, SentinelSet, eventually};
use futures_util::future::join_all;
use reentry::{Locks, LocksBuilder};

/// The maximum time for a failover and everything after it on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A lease that outlasts a failover.
pub(super) const TTL: Duration = Duration::from_secs(60);

/// A heartbeat so slow that a waiter that enters within `SOON` has not sent a request because of it.
pub(super) const RARELY: Duration = Duration::from_secs(20);

/// The time within which a waiter enters by a message.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// The URL of the primary of a set.
pub(crate) fn url(set: &SentinelSet) -> String {
    format!("redis+sentinel://{}/{NAME}", set.addresses())
}

/// Locks on the primary of a set. They soon treat a silence as an outage, but not a pause of a busy machine.
pub(super) fn builder(set: &SentinelSet) -> LocksBuilder {
    built_at(url(set))
}

pub(crate) fn built_at(url: String) -> LocksBuilder {
    Locks::builder(url)
        .ttl(TTL)
        .wait(PATIENCE)
        .outage(PATIENCE)
        .connect_timeout(DEADLINE)
        .response_timeout(Duration::from_secs(2))
}

/// Locks whose waiters send requests because of events, and not because time passes.
pub(super) fn unhurried(set: &SentinelSet) -> LocksBuilder {
    builder(set).__heartbeat(RARELY)
}

/// Waits until the running replicas have what was written on the primary.
pub(super) async fn until_replicated(set: &SentinelSet, primary: usize) {
    let nodes = set.nodes.iter().enumerate();
    let replicas = nodes.filter(|(index, node)| *index != primary && node.is_running());
    for (_, replica) in replicas {
        set.nodes[primary].until_replicated_to(replica).await;
    }
}

/// Waits until no data of any lock is left on this node.
pub(super) async fn until_free(node: &RedisServer) {
    let free = async || node.leftovers().await.is_empty();
    eventually(PATIENCE, "all locks are free", free).await;
}

/// The open inboxes on this node. Programs that monitor it are subscribed to a channel of their own.
pub(super) async fn inboxes(node: &RedisServer) -> usize {
    let channels = node.ask("PUBSUB CHANNELS reentry:inbox:*").await;
    let inboxes = channels
        .lines()
        .filter(|&it| !it.is_empty() && it != TO_ALL);
    inboxes.count()
}

/// Waits until this number of processes is subscribed to hand-offs on this node.
pub(super) async fn until_inboxes(node: &RedisServer, count: usize) {
    let open = async || inboxes(node).await == count;
    eventually(PATIENCE, "the inboxes are open", open).await;
}

/// The depth of the lock on this node, read without a script.
pub(super) async fn depth(node: &RedisServer, key: &str) -> u64 {
    let fields = node.ask(&format!("HGETALL {key}")).await;
    let fields: Vec<_> = fields.lines().collect();
    let holds = fields.chunks(2).filter(|pair| pair[0] != "mode");
    let depths = holds.filter_map(|pair| pair.get(1)?.parse::<u64>().ok());
    depths.sum()
}

pub(super) async fn until_depth(node: &RedisServer, depth: u64) {
    let right = async || self::depth(node, KEY).await == depth;
    eventually(PATIENCE, &format!("the depth is {depth}"), right).await;
}

/// Waits until the locks are acquired on this node. Locks that the old primary grants in the meantime are lost.
pub(super) async fn until_taken_in(node: &RedisServer, locks: &Locks) {
    let taken = async || {
        let entered = locks.with_lock("probe", async { depth(node, "probe").await });
        match entered.await {
            Ok(depth) => depth == 1,
            Err(error) if error.is_lost() => false,
            Err(error) => panic!("{error:?}"),
        }
    };
    eventually(PATIENCE, "the locks are in the new primary", taken).await;
}

/// A lock outlives a planned failover. The old primary is not affected immediately: only the sentinels report the
/// failover.
pub(super) async fn outlives_a_failover(set: &SentinelSet, locks: &Locks) {
    let guard = locks.lock(KEY).await.unwrap();
    until_replicated(set, 0).await;
    let new = set.failover().await;
    until_taken_in(&set.nodes[new], locks).await;
    assert!(!guard.held().is_lost());
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

/// The remaining lease of the lock at a certain time.
#[derive(Debug)]
pub(super) struct Lease {
    seen: Instant,
    left: Duration,
}

impl Lease {
    pub(super) async fn of(node: &RedisServer) -> Lease {
        let left = node.ask(&format!("PTTL {KEY}")).await;
        Lease {
            seen: Instant::now(),
            left: Duration::from_millis(left.parse().unwrap_or_default()),
        }
    }

    /// Waits until it was renewed on this node.
    pub(super) async fn until_renewed_in(&self, node: &RedisServer) {
        let margin = Duration::from_millis(50);
        let renewed = async || {
            let spent = self.seen.elapsed();
            Lease::of(node).await.left + spent > self.left + margin
        };
        eventually(PATIENCE, "the lease is renewed", renewed).await;
    }
}

/// Waits until no program is connected to these sentinels. They are connected to each other.
pub(super) async fn until_unvisited(set: &SentinelSet) {
    let unvisited = async || {
        let clients = set.sentinels.iter().map(|it| it.ask("CLIENT LIST"));
        let clients = join_all(clients).await.join("\n");
        let mut lines = clients.lines().filter(|line| !line.is_empty());
        // One line is that of the request itself.
        lines.all(|line| line.contains(" name=sentinel-") || line.contains(" cmd=client"))
    };
    eventually(PATIENCE, "no connection is left", unvisited).await;
}
