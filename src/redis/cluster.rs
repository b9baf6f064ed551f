//! The servers of a cluster: it knows which of them has a slot, and has a connector to each.
//!
//! The map is learnt at the start, from several servers in parallel, and again whenever it proves wrong. It proves
//! wrong by a redirection, an unavailable server, or a cluster that is down. A request follows redirections. No other
//! failure causes it to be sent twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::after;
use crate::redis::address::{Address, Place, list};
use crate::redis::attempt::InProgress;
use crate::redis::common::Common;
use crate::redis::connector::Connector;

mod learning;
mod map;
mod routing;
#[cfg(test)]
mod tests;

/// The minimum pause between two attempts to learn the map.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to learn the map, without the jitter.
const LONGEST: Duration = Duration::from_millis(300);

/// The time after the map was last learnt from which on the pauses begin with the shortest again.
const QUIET: Duration = Duration::from_secs(2);

/// A server, and the connection to it.
pub(super) struct Node {
    place: Place,
    pub(super) connector: Arc<Connector>,
}

/// The state that is known of the servers.
struct Known {
    /// The servers of the map, including replicas, and those that were asked for it or had a redirection to them since.
    nodes: BTreeMap<Place, Arc<Node>>,
    /// The server of each slot. Empty until the map is learnt.
    slots: Vec<Option<Arc<Node>>>,
    /// For each slot that is being moved, the number of requests that were sent to the server to which it moves.
    asked: BTreeMap<u16, u64>,
    /// The instant at which the map was last learnt.
    learnt: Option<Instant>,
    /// The instant from which on the map may be learnt again.
    learns_at: Option<Instant>,
    pauses: Backoff,
    is_closed: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            slots: Vec::new(),
            asked: BTreeMap::new(),
            learnt: None,
            learns_at: None,
            pauses: Backoff::doubling(LONGEST),
            is_closed: false,
        }
    }
}

impl Known {
    /// Notes that the map is learnt now.
    fn learn(&mut self, now: Instant) {
        let before = self.learnt.replace(now);
        if before.is_none_or(|before| now >= after(before, QUIET)) {
            self.pauses.reset();
        }
        self.learns_at = Some(after(now, self.pauses.next_pause().max(PAUSE)));
    }
}

/// The servers of a cluster.
pub(crate) struct Cluster {
    /// The address of one of them. The others are connected to in the same way.
    server: Address,
    seeds: Vec<Place>,
    common: Common,
    known: Mutex<Known>,
    learning: InProgress<()>,
    /// Counts the choices among servers that are equally good.
    turn: AtomicUsize,
}

impl Cluster {
    /// A cluster that is not connected yet. `server` is the address from which the addresses of all servers derive.
    pub(crate) fn new(server: Address, seeds: Vec<Place>, common: Common) -> Self {
        Self {
            server,
            seeds,
            common,
            known: Mutex::default(),
            learning: InProgress::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Learns the map, unless it is known, and connects to one of the servers that have slots.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut nodes = self.learnt_owners().await?;
        nodes.sort_by_key(|node| !node.connector.is_connected());
        let mut error = self.failed("none of its servers has slots");
        for node in nodes {
            match node.connector.connection().await {
                Ok(_) => return Ok(()),
                // One of them may be unavailable.
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// The server that has a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let known = self.known.lock();
        known.slots.get(usize::from(slot)).cloned().flatten()
    }

    fn has(&self, node: &Arc<Node>, slot: u16) -> bool {
        let owner = self.owner(slot);
        owner.is_some_and(|owner| Arc::ptr_eq(&owner, node))
    }

    /// The servers that have slots. The map is learnt if none is known.
    async fn learnt_owners(self: &Arc<Self>) -> Result<Vec<Arc<Node>>, StoreError> {
        let owners = self.owners();
        if owners.is_empty() {
            self.learn().await?;
            return Ok(self.owners());
        }
        Ok(owners)
    }

    /// The servers that have slots.
    fn owners(&self) -> Vec<Arc<Node>> {
        let known = self.known.lock();
        let owners = known.slots.iter().flatten();
        let owners: BTreeMap<_, _> = owners.map(|node| (&node.place, node)).collect();
        owners.into_values().cloned().collect()
    }

    /// The server at this place, which is known from now on.
    fn node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let node = self.new_node(place);
        let mut known = self.known.lock();
        if known.is_closed {
            return node;
        }
        Arc::clone(known.nodes.entry(place.clone()).or_insert(node))
    }

    /// The server to which a slot is being moved. This begins a new epoch of the slot, because the owner does not have
    /// the keys that have moved.
    fn asked(self: &Arc<Self>, slot: u16, place: &Place) -> Arc<Node> {
        *self.known.lock().asked.entry(slot).or_default() += 1;
        self.node(place)
    }

    fn new_node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let source = Arc::new(self.server.at(place));
        let (cluster, here) = (Arc::downgrade(self), place.clone());
        let has_slot = move |slot| {
            let owner = cluster.upgrade().and_then(|cluster| cluster.owner(slot));
            owner.is_some_and(|node| node.place == here)
        };
        let connector = Connector::new(source, self.common.clone(), Some(Box::new(has_slot)));
        Arc::new(Node {
            place: place.clone(),
            connector: Arc::new(connector),
        })
    }

    /// Notes that a server has a slot, as another server reports. More slots may have moved.
    fn moved(self: &Arc<Self>, slot: u16, place: &Place) -> Arc<Node> {
        let node = self.node(place);
        let before = {
            let mut known = self.known.lock();
            let is_open = !known.is_closed;
            let owner = known.slots.get_mut(usize::from(slot));
            // Several requests may be redirected; the first one reports the move.
            let is_news = |it: &Arc<Node>| it.place != *place;
            let owner = owner.filter(|it| is_open && it.as_ref().is_none_or(is_news));
            let before = owner.map(|owner| owner.replace(Arc::clone(&node)));
            if before.is_some() {
                self.common.generation.begin();
            }
            before
        };
        if before.is_some() {
            self.common.generation.announce();
            self.learn_soon();
        }
        node
    }

    /// A number that changes whenever another connection, or another server, responds for a slot.
    pub(crate) fn epoch(&self, slot: u16) -> u64 {
        let asked = self.known.lock().asked.get(&slot).copied();
        self.common.generation.number() + asked.unwrap_or_default()
    }

    /// Closes all connections, and opens no others.
    pub(crate) fn close(&self) {
        let nodes = {
            let mut known = self.known.lock();
            known.is_closed = true;
            std::mem::take(&mut known.nodes)
        };
        nodes.values().for_each(|node| node.connector.close());
    }

    /// The name of the cluster in messages.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        format!("the cluster of {}", list(&self.seeds)).into()
    }

    fn failed(&self, cause: &'static str) -> StoreError {
        StoreError::new("connect", &self.endpoint(), Effect::None, cause)
    }

    fn closed(&self) -> StoreError {
        StoreError::new(
            "connect",
            &self.endpoint(),
            Effect::Refused,
            "it was closed",
        )
    }
}
