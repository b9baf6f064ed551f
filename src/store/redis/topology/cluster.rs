//! The servers of a cluster: which of them has a slot, and a connector to each.
//!
//! The map is learnt at the start, from several servers at once, and again whenever it proves wrong: a redirection, a
//! server that is away, a cluster that is down. A request follows redirections and nothing else: no failure makes it go
//! out twice.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use redis::Value;
use tokio::select;
use tokio::time::Instant;

use self::known::{Known, Node, PAUSE};
use self::redirection::{may_be_elsewhere, redirection};
use crate::base::error::{Effect, StoreError};
use crate::base::key::SLOTS;
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, after, sleep, timeout_at};
use crate::store::redis::connect::Connector;
use crate::store::redis::connect::common::{Common, Role};
use crate::store::redis::connect::passage::Passage;
use crate::store::redis::link::address::{Address, Place, list};
use crate::store::redis::link::attempt::Attempt;
use crate::store::redis::link::source::Source;
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::value::Unexpected;

mod known;
mod learning;
mod map;
mod messages;
mod redirection;
#[cfg(test)]
mod tests;

/// How many redirections a request follows.
const REDIRECTIONS: usize = 5;

/// The servers of a cluster.
pub(crate) struct Cluster {
    /// How they are connected to: one of them.
    server: Address,
    seeds: Vec<Place>,
    common: Common,
    known: Mutex<Known>,
    learning: Attempt,
    /// Whose turn it is among servers that are equally good.
    turn: AtomicUsize,
}

impl Cluster {
    /// Asks none of them yet. `server` says how they are connected to, wherever they are.
    pub(crate) fn new(server: Address, seeds: Vec<Place>, common: Common) -> Self {
        Self {
            learning: Attempt::new(name(&seeds)),
            server,
            seeds,
            common,
            known: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Learns the map, unless it is there, and connects to one of the servers that have slots.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.nodes().is_empty() {
            self.learn().await?;
        }
        let mut nodes = self.nodes();
        nodes.sort_by_key(|node| !node.connector.is_connected());
        let mut error = self.failed("no server of it has slots");
        for node in nodes {
            match node.connector.connection().await {
                Ok(_) => return Ok(()),
                // One of them may be away.
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Runs one script at the server that has the slot of its keys, and reads its reply.
    pub(crate) async fn run<T>(
        self: Arc<Self>,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let slot = call.slot();
        let (mut node, mut passage) = self.connected(slot).await?;
        let mut way = Way::Plain;
        let until = after(Instant::now(), self.common.timeouts.response);
        for _ in 0..REDIRECTIONS {
            let limit = until.saturating_duration_since(Instant::now());
            let sent = node.connector.send(&passage, &call, way, limit).await;
            let connection = &passage.connection;
            let cause = match sent {
                Ok(reply) => return self.common.read(connection, call, reply, read),
                Err(cause) => cause,
            };
            (node, way) = match redirection(&cause, &node.place) {
                Some((place, Way::Plain)) => (self.moved(slot, &place), Way::Plain),
                Some((place, Way::Asking)) => (self.asked(slot, &place), Way::Asking),
                None => {
                    if may_be_elsewhere(&cause) {
                        self.learn_soon();
                    }
                    return Err(connection.failed(&call, cause));
                }
            };
            passage = match timeout_at(until, node.connector.passage()).await {
                Ok(passage) => passage?,
                Err(Elapsed) => {
                    let cause = "no connection in time to the server that it was redirected to";
                    return Err(self.failed(cause));
                }
            };
        }
        Err(self.failed("it was redirected too often"))
    }

    /// The server that has a slot, and a passage to it. An attempt to connect goes over to another server as soon as
    /// the slot is there.
    async fn connected(self: &Arc<Self>, slot: u16) -> Result<(Arc<Node>, Passage), StoreError> {
        loop {
            let begun = Instant::now();
            let Some(node) = self.owner(slot) else {
                self.learn().await?;
                if self.owner(slot).is_none() {
                    return Err(self.failed("no server of it has the slot"));
                }
                continue;
            };
            if let Some(passage) = node.connector.open_passage() {
                return Ok((node, passage));
            }
            let passage = select! {
                biased;
                passage = node.connector.passage() => passage,
                () = self.until_moved(slot, &node) => continue,
            };
            match passage {
                Ok(passage) => return Ok((node, passage)),
                Err(error) => {
                    if !self.has_learnt_since(begun) {
                        // The error of the connection says more.
                        let _ = self.learn().await;
                    }
                    if self.has(&node, slot) {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn has_learnt_since(&self, begun: Instant) -> bool {
        let learnt = self.known.lock().learnt;
        learnt.is_some_and(|learnt| learnt > begun)
    }

    async fn until_moved(self: &Arc<Self>, slot: u16, node: &Arc<Node>) {
        while self.has(node, slot) {
            sleep(PAUSE).await;
            // Without an answer the map stays as it is.
            let _ = self.learn().await;
        }
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let known = self.known.lock();
        known.slots.get(usize::from(slot)).cloned().flatten()
    }

    fn has(&self, node: &Arc<Node>, slot: u16) -> bool {
        let owner = self.owner(slot);
        owner.is_some_and(|owner| Arc::ptr_eq(&owner, node))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.known.lock().nodes.values().cloned().collect()
    }

    /// The server at this place, known or not.
    fn node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let node = {
            let known = self.known.lock();
            let node = known.nodes.get(place);
            node.or_else(|| known.asked_again.get(place)).cloned()
        };
        node.unwrap_or_else(|| self.new_node(place))
    }

    /// The server at this place, which keeps its connection for the next request from now on.
    fn kept(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let node = self.new_node(place);
        let mut known = self.known.lock();
        if known.is_closed {
            return node;
        }
        Arc::clone(known.nodes.entry(place.clone()).or_insert(node))
    }

    /// The server to which a slot is being moved. What it has, the owner of the slot has not.
    fn asked(self: &Arc<Self>, slot: u16, place: &Place) -> Arc<Node> {
        let epoch = self.common.epochs.fetch_add(1, Relaxed) + 1;
        self.known.lock().asked.insert(slot, epoch);
        self.kept(place)
    }

    fn new_node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let source = Arc::new(self.server.at(place));
        let role = OneOfMany {
            cluster: Arc::downgrade(self),
            place: place.clone(),
        };
        let connector = Connector::new(source, self.common.clone(), role);
        Arc::new(Node {
            place: place.clone(),
            connector: Arc::new(connector),
        })
    }

    /// A connection to a server was lost, and maybe the data of its slots.
    fn lost(&self, place: &Place) {
        let concerned: Vec<u16> = {
            let known = self.known.lock();
            let owned = (0..SLOTS).zip(&known.slots).filter(|(_, owner)| {
                let owner = owner.as_ref();
                owner.is_some_and(|node| node.place == *place)
            });
            owned.map(|(slot, _)| slot).collect()
        };
        self.common.outages.at(concerned);
    }

    /// A server says that another one has a slot. More slots may have moved.
    fn moved(self: &Arc<Self>, slot: u16, place: &Place) -> Arc<Node> {
        let node = self.kept(place);
        let before = {
            let mut known = self.known.lock();
            let is_open = !known.is_closed;
            let owner = known.slots.get_mut(usize::from(slot));
            // Of several requests that were on their way the first one tells of the move.
            let is_news = |it: &Arc<Node>| it.place != *place;
            let owner = owner.filter(|it| is_open && it.as_ref().is_none_or(is_news));
            owner.map(|owner| owner.replace(Arc::clone(&node)))
        };
        if before.is_some() {
            self.common.outages.at([slot]);
            self.learn_soon();
        }
        node
    }

    /// The connector of the server that has a slot.
    pub(crate) fn connector(&self, slot: u16) -> Option<Arc<Connector>> {
        self.owner(slot).map(|node| Arc::clone(&node.connector))
    }

    /// Tells the server of a slot from the others; 0 if it is not known.
    pub(crate) fn server_of(&self, slot: u16) -> usize {
        let owner = self.owner(slot);
        owner.map_or(0, |node| Arc::as_ptr(&node).addr())
    }

    /// Changes whenever another connection, or another server, answers for a slot.
    pub(crate) fn epoch(&self, slot: u16) -> u64 {
        let known = self.known.lock();
        let owner = known.slots.get(usize::from(slot));
        let owner = owner.and_then(|node| Some(node.as_ref()?.connector.epoch()));
        // Each is greater than all that were there before it.
        owner.max(known.asked.get(&slot).copied()).unwrap_or(0)
    }

    /// Changes with every new connection: each epoch is greater than all before it. What cannot be connected to changes
    /// nothing.
    pub(crate) fn epochs(&self) -> u64 {
        let nodes = self.nodes().into_iter();
        let connected = nodes.filter(|node| node.connector.is_connected());
        let epochs = connected.map(|node| node.connector.epoch());
        epochs.max().unwrap_or_default()
    }

    /// Closes all connections, and makes no other ones.
    pub(crate) fn close(&self) {
        let nodes = {
            let mut known = self.known.lock();
            known.is_closed = true;
            let mut nodes = std::mem::take(&mut known.nodes);
            nodes.append(&mut known.asked_again);
            nodes
        };
        nodes.values().for_each(|node| node.connector.close());
    }

    fn failed(&self, cause: &'static str) -> StoreError {
        StoreError::new("connect", &self.endpoint(), Effect::None, cause)
    }

    fn closed(&self) -> StoreError {
        let endpoint = self.endpoint();
        StoreError::new("connect", &endpoint, Effect::Refused, "it was closed")
    }
}

/// What the cluster is called in messages.
fn name(seeds: &[Place]) -> Arc<str> {
    format!("the cluster of {}", list(seeds)).into()
}

/// A server of a cluster.
struct OneOfMany {
    cluster: Weak<Cluster>,
    place: Place,
}

impl Role for OneOfMany {
    fn lost(&self) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.lost(&self.place);
        }
    }

    fn has(&self, slot: u16) -> bool {
        let owner = self
            .cluster
            .upgrade()
            .and_then(|cluster| cluster.owner(slot));
        owner.is_some_and(|node| node.place == self.place)
    }
}
