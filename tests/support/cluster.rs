//! A cluster: three primaries that share the slots, and a replica of each.

mod view;

use super::replication::{PROMPT, password};
use super::server::{Kind, RedisServer};
use super::wait::{eventually, within};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use view::View;

/// The number of slots.
pub const SLOTS: u16 = 16_384;

const PRIMARIES: usize = 3;

/// The time limit for a failover, and for everything else that requires the nodes to exchange news.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time after which a takeover is repeated. A replica gives up after five seconds without the votes.
const ATTEMPT: Duration = Duration::from_secs(6);

/// The options of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Further options of every node. The replicas also use a `--requirepass` as their own password.
    pub nodes: &'a [&'a str],
    /// The silence after which the nodes consider one of them failing.
    pub node_timeout: Duration,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config {
            nodes: &[],
            node_timeout: Duration::from_secs(2),
        }
    }
}

/// Three primaries with a third of the slots each, and a replica of each.
///
/// Each is a [`RedisServer`], which can be stopped, shut down, paused and started again separately. A node that returns
/// remembers the cluster, but has no data until it is a replica.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes. At the start these are the primaries in the order of their slots, then their replicas in the same
    /// order.
    pub nodes: Vec<RedisServer>,
    pub(super) ids: Vec<String>,
    pub(super) password: Option<String>,
    /// The slots of the keys that were looked up.
    slots: Mutex<HashMap<String, u16>>,
}

impl Cluster {
    /// Starts a cluster, and waits until every node sees the complete cluster.
    pub async fn start() -> Cluster {
        Cluster::start_with(Config::default()).await
    }

    /// Starts a cluster with options.
    pub async fn start_with(config: Config<'_>) -> Cluster {
        let timeout = config.node_timeout.as_millis().to_string();
        let mut options = PROMPT.to_vec();
        options.extend(["--cluster-enabled", "yes"]);
        options.extend(["--cluster-node-timeout", &timeout]);
        options.extend(config.nodes);
        let password = password(config.nodes);
        if let Some(password) = password {
            options.extend(["--masterauth", password]);
        }
        let start = |_| RedisServer::start_as(Kind::ClusterNode, &options);
        let nodes = join_all((0..2 * PRIMARIES).map(start)).await;
        let ids = nodes
            .iter()
            .map(async |node| node.ask("CLUSTER MYID").await);
        let cluster = Cluster {
            ids: join_all(ids).await,
            nodes,
            password: password.map(str::to_owned),
            slots: Mutex::default(),
        };
        cluster.join().await;
        cluster.until_settled().await;
        cluster
    }

    /// The addresses of all nodes: `host:port,host:port,…`.
    pub fn seeds(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(RedisServer::address).collect();
        addresses.join(",")
    }

    /// The slot of a key. A server is asked once for each key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        if let Some(&slot) = self.slots().get(key) {
            return slot;
        }
        let node = self.nodes.iter().find(|node| node.is_running());
        let node = node.expect("a node that runs");
        let slot = node.ask(&format!("CLUSTER KEYSLOT {key:?}")).await;
        let slot = slot.parse().expect("a slot");
        self.slots().insert(key.to_owned(), slot);
        slot
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, u16>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that has the key, as soon as all running nodes agree.
    pub async fn owner_of(&self, key: &str) -> usize {
        self.owner_of_slot(self.slot_of(key).await).await
    }

    /// The node that has the slot, as soon as all running nodes agree.
    pub async fn owner_of_slot(&self, slot: u16) -> usize {
        self.until_owner(slot, |_| true).await
    }

    /// Waits until all running nodes agree that one of them other than `from` has the slot, and report that the cluster
    /// is healthy. Returns that node.
    pub async fn until_failed_over(&self, slot: u16, from: usize) -> usize {
        let owner = self.until_owner(slot, |owner| owner != from).await;
        let running = self.running();
        let well = async || join_all(running.iter().map(|node| is_well(node))).await;
        let well = async || well().await.into_iter().all(|is_well| is_well);
        eventually(PATIENCE, "the cluster is well again", well).await;
        owner
    }

    /// A replica of the node. The node must be a primary.
    pub async fn replica_of(&self, primary: usize) -> usize {
        let view = View::of(&self.nodes[primary]).await.expect("its view");
        let replica = view.replica_of(&self.ids[primary]).expect("a replica");
        self.place(replica).expect("a node of this cluster")
    }

    /// Makes the replica take over from its primary, which works (`CLUSTER FAILOVER`). Waits until all running nodes
    /// report that. Nothing is lost.
    ///
    /// The other primaries vote for a replica of one node only once in two node timeouts. So a second failover of the
    /// same node may take some seconds.
    pub async fn failover(&self, replica: usize) {
        let id = &self.ids[replica];
        let over = async || {
            let views = self.views().await;
            views.is_some_and(|views| views.iter().all(|view| view.is_primary(id)))
        };
        within(PATIENCE, "the replica takes over", async {
            loop {
                self.nodes[replica].ask("CLUSTER FAILOVER").await;
                let over = eventually(PATIENCE, "the replica takes over", &over);
                if timeout(ATTEMPT, over).await.is_ok() {
                    return;
                }
            }
        })
        .await;
    }

    /// Waits until every node runs and considers all others healthy, all of them agree on the owner of every slot, and
    /// every replica is linked.
    pub async fn until_settled(&self) {
        let settled = async || {
            let running = self.running();
            let well = join_all(running.iter().map(|node| is_well(node))).await;
            let Some(views) = self.views().await else {
                return false;
            };
            let table = views[0].table();
            let whole =
                |view: &View| view.is_whole(self.nodes.len(), PRIMARIES) && view.table() == table;
            running.len() == self.nodes.len()
                && well.into_iter().all(|is_well| is_well)
                && views.iter().all(whole)
                && self.is_linked(&views[0]).await
        };
        eventually(PATIENCE, "every node sees the whole cluster", settled).await;
    }

    /// Creates a cluster from nodes that do not know each other.
    async fn join(&self) {
        // Only a node that knows no other node can be given an epoch.
        for (place, node) in self.nodes.iter().enumerate() {
            let epoch = place + 1;
            node.ask(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}")).await;
        }
        for (place, node) in self.nodes.iter().take(PRIMARIES).enumerate() {
            let start = |place: usize| place * usize::from(SLOTS) / PRIMARIES;
            add_slots(node, start(place)..start(place + 1)).await;
        }
        // All pairs are introduced, because nodes learn of each other more slowly through others.
        for (place, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[place + 1..] {
                let meet = format!("CLUSTER MEET 127.0.0.1 {}", other.port());
                node.ask(&meet).await;
            }
        }
        let count = self.nodes.len();
        let met = async || {
            let views = self.views().await;
            views.is_some_and(|views| views.iter().all(|view| view.is_whole(count, count)))
        };
        eventually(PATIENCE, "the nodes know each other", met).await;
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES);
        for (replica, (_, id)) in replicas.iter().zip(primaries.iter().zip(&self.ids)) {
            replica.ask(&format!("CLUSTER REPLICATE {id}")).await;
        }
    }

    /// Waits until all running nodes agree on a suitable owner of the slot. Returns that node.
    pub(super) async fn until_owner(&self, slot: u16, is_meant: impl Fn(usize) -> bool) -> usize {
        let mut owner = None;
        let agreed = async || {
            owner = self.agreed_owner(slot).await;
            owner.is_some_and(&is_meant)
        };
        eventually(PATIENCE, "the nodes agree who has the slot", agreed).await;
        owner.expect("the owner that was agreed on")
    }

    /// The node that has the slot in the view of every running node.
    async fn agreed_owner(&self, slot: u16) -> Option<usize> {
        let views = self.views().await?;
        let owner = views.first()?.owner_of(slot)?;
        let agreed = views.iter().all(|view| view.owner_of(slot) == Some(owner));
        if agreed { self.place(owner) } else { None }
    }

    /// The views of all running nodes, if all respond.
    async fn views(&self) -> Option<Vec<View>> {
        let running = self.running();
        let views = join_all(running.into_iter().map(View::of)).await;
        views.into_iter().collect()
    }

    /// Returns whether the replicas of this view are linked.
    async fn is_linked(&self, view: &View) -> bool {
        let places = view.replicas().filter_map(|id| self.place(id));
        let linked = join_all(places.map(|place| self.nodes[place].is_linked())).await;
        linked.into_iter().all(|is_linked| is_linked)
    }

    fn running(&self) -> Vec<&RedisServer> {
        self.nodes.iter().filter(|node| node.is_running()).collect()
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|it| it == id)
    }
}

/// A cluster of one node, which has all slots. Its start takes two seconds, like that of any cluster.
pub async fn alone() -> RedisServer {
    let node = RedisServer::start_as(Kind::ClusterNode, &["--cluster-enabled", "yes"]).await;
    add_slots(&node, 0..usize::from(SLOTS)).await;
    let well = async || is_well(&node).await;
    eventually(PATIENCE, "the node serves every slot", well).await;
    node
}

/// The size limit of a command without the client library is 64 KiB.
async fn add_slots(node: &RedisServer, slots: Range<usize>) {
    let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
    for slots in slots.chunks(8_192) {
        let slots = slots.join(" ");
        node.ask(&format!("CLUSTER ADDSLOTS {slots}")).await;
    }
}

/// Returns whether the node reports that all slots are served.
async fn is_well(node: &RedisServer) -> bool {
    let info = node.try_ask("CLUSTER INFO").await.unwrap_or_default();
    let has = |line: &str| info.lines().any(|it| it.trim_end() == line);
    has("cluster_state:ok") && has(&format!("cluster_slots_ok:{SLOTS}"))
}
