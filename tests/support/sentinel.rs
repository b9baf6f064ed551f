//! A primary and its replicas, with the sentinels that watch them.

use super::replication::{PROMPT, password};
use super::server::{Kind, RedisServer};
use super::wait::eventually;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::timeout;

/// The name by which the sentinels know the primary.
pub const NAME: &str = "orders";

/// The time limit for a failover. If the votes of the sentinels are split, they vote again after twice the failover
/// timeout.
const PATIENCE: Duration = Duration::from_secs(60);

/// The options of a set.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Further options of the nodes that hold data. The replicas and the sentinels also use a `--requirepass`
    /// among them.
    pub nodes: &'a [&'a str],
    /// Further options of the sentinels. They also use a `--requirepass` towards each other.
    pub sentinels: &'a [&'a str],
    /// The silence after which a sentinel considers a node down.
    pub down_after: Duration,
    /// `failover-timeout` of the sentinels.
    pub failover_timeout: Duration,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config {
            nodes: &[],
            sentinels: &[],
            down_after: Duration::from_secs(1),
            failover_timeout: Duration::from_secs(10),
        }
    }
}

/// One primary, two replicas and three sentinels. Two of the sentinels must agree on a failover.
///
/// Each is a [`RedisServer`], which can be stopped, shut down, paused and started again separately. A node that returns
/// has its last role, and a primary returns without data. About ten seconds after the sentinels notice a replaced
/// primary again, they make it a replica. Until then it accepts writes, and loses them.
#[derive(Debug)]
pub struct SentinelSet {
    /// The primary, which is the first at the start, and the replicas.
    pub nodes: Vec<RedisServer>,
    /// The sentinels.
    pub sentinels: Vec<RedisServer>,
    /// The options of the sentinels, except the primary that they watch.
    options: Vec<String>,
}

impl SentinelSet {
    /// Starts a set, and waits until it is ready for a failover.
    pub async fn start() -> SentinelSet {
        SentinelSet::start_with(Config::default()).await
    }

    /// Starts a set with options.
    pub async fn start_with(config: Config<'_>) -> SentinelSet {
        let mut options = PROMPT.to_vec();
        options.extend(config.nodes);
        if let Some(password) = password(config.nodes) {
            options.extend(["--masterauth", password]);
        }
        let primary = RedisServer::start_with(&options).await;
        let port = primary.port().to_string();
        options.extend(["--replicaof", "127.0.0.1", &port]);
        let replicas = (0..2).map(|_| RedisServer::start_with(&options));
        let replicas = join_all(replicas).await;
        let linked = async || all(&replicas, RedisServer::is_linked).await;
        eventually(PATIENCE, "the replicas are linked", linked).await;

        let mut set = SentinelSet {
            nodes: [primary].into_iter().chain(replicas).collect(),
            sentinels: Vec::new(),
            options: watching(&config),
        };
        let sentinels = join_all((0..3).map(|_| set.sentinel(0))).await;
        set.sentinels = sentinels;
        set.introduce().await;
        set.until_settled().await;
        set
    }

    /// The addresses of the sentinels: `host:port,host:port,host:port`.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        addresses.join(",")
    }

    /// The node that a majority of the sentinels names as the primary, as soon as there is one.
    pub async fn primary(&self) -> usize {
        let mut primary = None;
        let named = async || {
            primary = self.named().await;
            primary.is_some()
        };
        eventually(PATIENCE, "a majority of the sentinels agrees", named).await;
        primary.expect("the node that was named")
    }

    /// Makes one sentinel fail over (`SENTINEL FAILOVER`) while all nodes are healthy. Returns the new primary when it
    /// is one and all running sentinels report that.
    ///
    /// The old primary still accepts writes for about ten seconds, and loses them, because the sentinels do not inform
    /// it sooner. Use [`RedisServer::is_linked`] to wait for its end as a primary.
    pub async fn failover(&self) -> usize {
        let from = self.primary().await;
        let sentinel = self.sentinels.iter().find(|it| it.is_running());
        let sentinel = sentinel.expect("a sentinel that runs");
        sentinel.ask(&format!("SENTINEL FAILOVER {NAME}")).await;
        self.until_failed_over(from).await
    }

    /// Waits until all running sentinels name one primary, which is not `from`, and which itself reports that it is
    /// one. Returns that node.
    pub async fn until_failed_over(&self, from: usize) -> usize {
        let mut to = from;
        let over = async || {
            let running = self.sentinels.iter().filter(|it| it.is_running());
            let named = join_all(running.map(|sentinel| self.named_by(sentinel))).await;
            let Some(&Some(first)) = named.first() else {
                return false;
            };
            to = first;
            let agreed = first != from && named.iter().all(|&node| node == Some(first));
            agreed && self.nodes[first].is_running() && self.nodes[first].is_primary().await
        };
        let over = eventually(2 * PATIENCE, "the sentinels agree on another primary", over);
        if timeout(PATIENCE, over).await.is_err() {
            let states = |servers: &[RedisServer]| -> Vec<_> {
                let states = servers.iter().map(|it| (it.port(), it.state()));
                states.collect()
            };
            let logs: Vec<_> = self.sentinels.iter().map(RedisServer::log).collect();
            panic!(
                "no failover within {PATIENCE:?}; nodes {:?}, sentinels {:?}, which said:\n{}",
                states(&self.nodes),
                states(&self.sentinels),
                logs.join("\n")
            );
        }
        to
    }

    /// Waits until every node and every sentinel runs, each sentinel sees all others, and every replica is linked to
    /// the primary. After a failover this takes up to 20 seconds, because sentinels query a healthy node once in ten
    /// seconds.
    pub async fn until_settled(&self) {
        let settled = async || {
            let replicas = self.nodes.len() - 1;
            let others = self.sentinels.len() - 1;
            let seen = all(&self.sentinels, async |it: &RedisServer| {
                sees(it, replicas, others).await
            })
            .await;
            seen && self.named().await.is_some()
        };
        eventually(PATIENCE, "each sentinel sees all others", settled).await;
    }

    /// A sentinel that watches this node, and does not know the others yet.
    async fn sentinel(&self, primary: usize) -> RedisServer {
        let port = self.nodes[primary].port().to_string();
        let monitor = ["--sentinel", "monitor", NAME, "127.0.0.1", &port, "2"];
        let options = self.options.iter().map(String::as_str);
        let options: Vec<_> = monitor.into_iter().chain(options).collect();
        RedisServer::start_as(Kind::Sentinel, &options).await
    }

    /// Introduces each sentinel to all others. Without that it takes them some seconds.
    async fn introduce(&self) {
        let primary = match self.named().await {
            Some(primary) => self.nodes[primary].port(),
            None => self.nodes[0].port(),
        };
        for sentinel in &self.sentinels {
            let (port, id) = (sentinel.port(), sentinel.ask("SENTINEL MYID").await);
            // Both epochs are 0, so the message changes only which sentinels are known.
            let hello = format!("127.0.0.1,{port},{id},0,{NAME},127.0.0.1,{primary},0");
            let others = self.sentinels.iter().filter(|it| it.port() != port);
            for other in others {
                other
                    .ask(&format!("PUBLISH __sentinel__:hello {hello}"))
                    .await;
            }
        }
    }

    /// The node that more than half of the sentinels name.
    async fn named(&self) -> Option<usize> {
        let running = self.sentinels.iter().filter(|it| it.is_running());
        let named = join_all(running.map(|sentinel| self.named_by(sentinel))).await;
        let votes = |node: usize| named.iter().filter(|&&it| it == Some(node)).count();
        (0..self.nodes.len()).find(|&node| votes(node) * 2 > self.sentinels.len())
    }

    async fn named_by(&self, sentinel: &RedisServer) -> Option<usize> {
        let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}");
        let address = sentinel.try_ask(&command).await.ok()?;
        let port: u16 = address.lines().nth(1)?.parse().ok()?;
        self.nodes.iter().position(|node| node.port() == port)
    }
}

/// The options of a sentinel, except the primary that it watches.
fn watching(config: &Config<'_>) -> Vec<String> {
    let mut options: Vec<_> = config.sentinels.iter().map(|&it| it.to_owned()).collect();
    let mut set = |option: &str, value: &str| {
        options.extend(["--sentinel", option, NAME, value].map(str::to_owned));
    };
    let milliseconds = |time: Duration| time.as_millis().to_string();
    set("down-after-milliseconds", &milliseconds(config.down_after));
    set("failover-timeout", &milliseconds(config.failover_timeout));
    set("parallel-syncs", "2");
    if let Some(password) = password(config.nodes) {
        set("auth-pass", password);
    }
    options
}

/// Returns whether this sentinel sees this number of replicas and other sentinels, and considers all of them healthy.
async fn sees(sentinel: &RedisServer, replicas: usize, others: usize) -> bool {
    let ask = async |what: &str| {
        let answer = sentinel.try_ask(&format!("SENTINEL {what} {NAME}")).await;
        answer.unwrap_or_default()
    };
    let all_are = |answer: &str, field: &str, expected: &str, count: usize| {
        let lines: Vec<_> = answer.lines().collect();
        let fields = lines.chunks(2).filter(|pair| pair[0] == field);
        let values: Vec<_> = fields.filter_map(|pair| pair.get(1)).collect();
        values.len() == count && values.iter().all(|&&value| value == expected)
    };
    let primary = ask("MASTER").await;
    let followers = ask("REPLICAS").await;
    all_are(&primary, "flags", "master", 1)
        && all_are(&primary, "num-slaves", &replicas.to_string(), 1)
        && all_are(&primary, "num-other-sentinels", &others.to_string(), 1)
        && all_are(&followers, "flags", "slave", replicas)
        && all_are(&followers, "master-link-status", "ok", replicas)
        && all_are(&ask("SENTINELS").await, "flags", "sentinel", others)
}

async fn all(servers: &[RedisServer], holds: impl AsyncFn(&RedisServer) -> bool) -> bool {
    for server in servers {
        if !server.is_running() || !holds(server).await {
            return false;
        }
    }
    true
}
