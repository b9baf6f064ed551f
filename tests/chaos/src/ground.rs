//! The servers on which the workers lock.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::faults::tell::{Told, insist, tell};
use crate::plan::{KEYS, WORKERS};
use crate::support::cluster::{self, Cluster};
use crate::support::proxy::Proxy;
use crate::support::sentinel::{self, NAME, SentinelSet};
use crate::support::server::RedisServer;
use crate::topology::Topology;

/// There is no fsync, but the file is written before any response: data that was answered survives the server's
/// process.
const DURABLE: [&str; 6] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--maxclients",
    "1000",
];

/// The silence after which a node counts as down. Faults that must not cause a failover are shorter.
const DOWN_AFTER: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(crate) enum Ground {
    Server {
        server: RedisServer,
        /// The connection of each worker to the server.
        proxies: Vec<Proxy>,
    },
    Sentinel(SentinelSet),
    Cluster(Cluster),
}

impl Ground {
    pub(crate) async fn start(topology: Topology) -> Ground {
        match topology {
            Topology::Server => {
                let server = RedisServer::start_with(&DURABLE).await;
                let way = |_| Proxy::start(server.port());
                let proxies = (0..WORKERS).map(way).collect();
                Ground::Server { server, proxies }
            }
            Topology::Sentinel => {
                let config = sentinel::Config {
                    down_after: DOWN_AFTER,
                    failover_timeout: Duration::from_secs(5),
                    ..sentinel::Config::default()
                };
                Ground::Sentinel(SentinelSet::start_with(config).await)
            }
            Topology::Cluster => {
                let config = cluster::Config {
                    node_timeout: DOWN_AFTER,
                    ..cluster::Config::default()
                };
                let cluster = Cluster::start_with(config).await;
                // This is requested before the faults begin.
                for key in KEYS {
                    cluster.slot_of(key).await;
                }
                Ground::Cluster(cluster)
            }
        }
    }

    /// One for each worker.
    pub(crate) fn urls(&self) -> Vec<String> {
        let same = |url: String| vec![url; WORKERS];
        match self {
            Ground::Server { proxies, .. } => proxies.iter().map(Proxy::url).collect(),
            Ground::Sentinel(set) => same(format!("redis+sentinel://{}/{NAME}", set.addresses())),
            Ground::Cluster(cluster) => same(format!("redis+cluster://{}", cluster.seeds())),
        }
    }

    /// The nodes that hold data.
    pub(crate) fn nodes(&self) -> &[RedisServer] {
        match self {
            Ground::Server { server, .. } => std::slice::from_ref(server),
            Ground::Sentinel(set) => &set.nodes,
            Ground::Cluster(cluster) => &cluster.nodes,
        }
    }

    /// The running nodes that report that they are primaries.
    pub(crate) async fn primaries(&self) -> Vec<usize> {
        let roles = self.nodes().iter().map(async |node| {
            let limit = Duration::from_secs(1);
            node.is_running()
                && tokio::time::timeout(limit, node.is_primary())
                    .await
                    .unwrap_or(false)
        });
        let roles = join_all(roles).await;
        (0..roles.len()).filter(|&node| roles[node]).collect()
    }

    /// The keys that a node may have.
    pub(crate) async fn keys_of(&self, node: usize) -> Vec<&'static str> {
        let Ground::Cluster(cluster) = self else {
            return KEYS.to_vec();
        };
        let Told::Answer(nodes) = tell(&cluster.nodes[node], "CLUSTER NODES").await else {
            return KEYS.to_vec();
        };
        let myself = nodes.lines().find(|line| line.contains("myself"));
        let words = myself.unwrap_or_default().split(' ').skip(8);
        // The form is `7`, `7-9`, or a slot that is moving: `[7->-ID]`, `[7-<-ID]`.
        let slots: Vec<_> = words
            .filter_map(|word| {
                let mut ends = word.trim_start_matches('[').split('-');
                let first: u16 = ends.next()?.parse().ok()?;
                let last = ends.next().and_then(|last| last.parse().ok());
                Some(first..=last.unwrap_or(first))
            })
            .collect();
        let mut keys = Vec::new();
        for key in KEYS {
            let slot = cluster.slot_of(key).await;
            if slots.iter().any(|slots| slots.contains(&slot)) {
                keys.push(key);
            }
        }
        keys
    }

    /// A number that changes with each failover.
    pub(crate) async fn signature(&self) -> String {
        let Ground::Sentinel(set) = self else {
            return format!("{:?}", self.primaries().await);
        };
        let primary = set.primary().await;
        let masters = set.sentinels.iter().map(async |sentinel| {
            let told = tell(sentinel, &format!("SENTINEL MASTER {NAME}")).await;
            let Told::Answer(answer) = told else {
                return 0;
            };
            let mut lines = answer.lines().skip_while(|&line| line != "config-epoch");
            lines
                .nth(1)
                .and_then(|epoch| epoch.parse().ok())
                .unwrap_or(0)
        });
        let epoch: Option<u64> = join_all(masters).await.into_iter().max();
        format!("{primary} in {epoch:?}")
    }

    /// Waits until all servers are healthy.
    pub(crate) async fn settle(&self) {
        patiently(async || match self {
            Ground::Server { .. } => {}
            Ground::Sentinel(set) => set.until_settled().await,
            Ground::Cluster(cluster) => cluster.until_settled().await,
        })
        .await;
    }

    /// Waits until another node is the primary in the place of this one, which has that slot. Returns that node.
    pub(crate) async fn until_failed_over(&self, from: usize, slot: u16) -> usize {
        patiently(async || match self {
            Ground::Server { .. } => from,
            Ground::Sentinel(set) => set.until_failed_over(from).await,
            Ground::Cluster(cluster) => cluster.until_failed_over(slot, from).await,
        })
        .await
    }

    /// Undoes everything that a fault may have left.
    pub(crate) async fn heal(&self) {
        if let Ground::Server { proxies, .. } = self {
            for proxy in proxies {
                proxy.heal().await;
            }
            return;
        }
        self.settle().await;
        for node in self.nodes() {
            insist(node, "CONFIG SET maxmemory 0").await;
            insist(node, "CONFIG SET min-replicas-to-write 0").await;
        }
    }

    /// The locks and the places in lines. Tombstones, and the entries of dead processes, expire.
    pub(crate) async fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for node in self.primaries().await {
            left.extend(leftovers(&self.nodes()[node]).await?);
        }
        Ok(left)
    }
}

/// Waits three times as long as the tests do, because sentinels whose votes are split vote again after a while.
pub(crate) async fn patiently<T>(wait: impl AsyncFn() -> T) -> T {
    for _ in 0..2 {
        if let Ok(output) = AssertUnwindSafe(wait()).catch_unwind().await {
            return output;
        }
    }
    wait().await
}

async fn leftovers(server: &RedisServer) -> Result<Vec<String>> {
    let mut connection = server.connection().await;
    let mut left = Vec::new();
    for key in server.leftovers().await {
        let waits = redis::cmd("HVALS").arg(&key).to_owned();
        let is_entries = key.starts_with("reentry:entries:");
        let waits: Vec<String> = match is_entries {
            true => waits.query_async(&mut connection).await.context("HVALS")?,
            false => Vec::new(),
        };
        // "deadline hold lease", the deadline in µs.
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
        let is_live = |wait: &String| {
            let deadline = wait.split_once(' ').map(|(deadline, _)| deadline.parse());
            deadline.is_some_and(|deadline: Result<u128, _>| deadline.is_ok_and(|at| now < at))
        };
        if !is_entries || waits.iter().any(is_live) {
            left.push(key);
        }
    }
    Ok(left)
}
