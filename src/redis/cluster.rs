//! The servers of a cluster: it knows which of them has a slot, has a connector to each, and sends a call to the server
//! that has its keys.
//!
//! The map is learnt at the start, from several servers in parallel, and again whenever it proves wrong. It proves
//! wrong by a redirection, an unavailable server, or a cluster that is down. A request follows redirections. No other
//! failure causes it to be sent twice.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::select;
use tokio::time::Instant;

use super::connector::Connector;
use super::connector::shared_connection::SharedConnection;
use super::context::ConnectorContext;
use super::failure::{condition, driver_error, is_read_only};
use super::script::{Call, SendMode};
use super::shared_attempts::SharedAttempt;
use super::source::{Address, HostPort};
use crate::base::error::StoreError;
use crate::base::sync::Mutex;
use crate::base::timer::{Backoff, Elapsed, after, sleep, timeout_at};

mod slot_map;
#[cfg(test)]
mod tests;

/// The minimum pause between two attempts to learn the map.
const MIN_LEARN_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to learn the map, without the jitter.
const MAX_LEARN_PAUSE: Duration = Duration::from_millis(300);

/// The time after the map was last learnt from which on the pauses begin with the shortest again.
const MAP_SETTLES_AFTER: Duration = Duration::from_secs(2);

/// The maximum number of redirections that a request follows.
const MAX_REDIRECTIONS: usize = 5;

/// A server, and the connection to it.
pub(super) struct Node {
    place: HostPort,
    pub(super) connector: Arc<Connector>,
}

/// What is known of the servers.
struct ClusterState {
    /// The servers of the map, including replicas, and those that were asked for it or had a redirection to them since.
    nodes: BTreeMap<HostPort, Arc<Node>>,
    /// The server of each slot. Empty until the map is learnt.
    slots: Vec<Option<Arc<Node>>>,
    /// For each slot that is being moved, the number of requests that were sent to the server to which it moves.
    asked: BTreeMap<u16, u64>,
    /// The instant at which the map was last learnt.
    learnt: Option<Instant>,
    /// The instant from which on the map may be learnt again.
    learns_at: Instant,
    pauses: Backoff,
    is_closed: bool,
}

impl ClusterState {
    fn new() -> Self {
        Self {
            nodes: BTreeMap::new(),
            slots: Vec::new(),
            asked: BTreeMap::new(),
            learnt: None,
            learns_at: Instant::now(),
            pauses: Backoff::doubling(MAX_LEARN_PAUSE),
            is_closed: false,
        }
    }

    /// Notes that the map is learnt now.
    fn note_learning(&mut self, now: Instant) {
        // While the map proves wrong again and again, the pauses grow, because many requests find it wrong at the same
        // time.
        let before = self.learnt.replace(now);
        if before.is_none_or(|before| now >= after(before, MAP_SETTLES_AFTER)) {
            self.pauses.reset();
        }
        self.learns_at = after(now, self.pauses.next_pause().max(MIN_LEARN_PAUSE));
    }
}

/// The servers of a cluster.
pub(crate) struct Cluster {
    /// The address of one of them. The others are connected to in the same way.
    server: Address,
    seeds: Vec<HostPort>,
    context: Arc<ConnectorContext>,
    state: Mutex<ClusterState>,
    learning: SharedAttempt,
    /// Counts the choices among servers that are equally good.
    turn: AtomicUsize,
}

impl Cluster {
    /// A cluster that is not connected yet. `server` is the address from which the addresses of all servers derive.
    pub(super) fn new(
        server: Address,
        seeds: Vec<HostPort>,
        context: Arc<ConnectorContext>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            seeds,
            context,
            state: Mutex::new(ClusterState::new()),
            learning: SharedAttempt::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Learns the map, unless it is known, and connects to one of the servers that have slots.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut nodes = self.owners().await?;
        // A server with a connection answers without an attempt to connect.
        // Each is asked once, because an order that changes under a sort makes it panic.
        nodes.sort_by_cached_key(|node| !node.connector.is_connected());
        // The last failure is reported, because each may have another reason.
        let mut error = self.unavailable("none of its servers has slots");
        for node in nodes {
            match node.connector.connection().await {
                Ok(_) => return Ok(()),
                // One of them may be unavailable.
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Sends a call to the server that has the slot of its keys.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call) -> Result<Value, StoreError> {
        self.context
            .unless_forked(call.verb(), || self.endpoint())?;
        let slot = call.slot();
        let (mut node, mut connection) = self.connected_owner(slot).await?;
        let mut mode = SendMode::Plain;
        // One limit for all redirections, because the caller relies on one response timeout. It begins when there is a
        // connection, because the attempt to connect has limits of its own.
        let until = after(Instant::now(), self.context.timeouts.response);
        for _ in 0..MAX_REDIRECTIONS {
            let limit = until.saturating_duration_since(Instant::now());
            let sent = node.connector.send(&connection, call, mode, limit).await;
            let error = match sent {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            // An error of this crate, for example after a timeout, is no reply of a server.
            let Some(cause) = driver_error(&error) else {
                return Err(error);
            };
            // Another server has the slot, or, while the slot is being moved, the keys of the call.
            let Some((place, redirected)) = redirection(cause, &node.place) else {
                // Any other failure goes up as it is, because the caller decides about a repetition. But the next
                // request shall find the right server.
                if may_be_elsewhere(cause) {
                    self.learn_soon();
                }
                return Err(error);
            };
            mode = redirected;
            node = match mode {
                // The map is corrected for all requests, and a new generation begins, so the holds are verified.
                SendMode::Plain => self.note_move(slot, &place),
                SendMode::Asking => {
                    // The owner does not have the keys that have moved.
                    *self.state.lock().asked.entry(slot).or_default() += 1;
                    self.node_at(&place)
                }
            };
            connection = match timeout_at(until, node.connector.connection()).await {
                Ok(connection) => connection?,
                Err(Elapsed) => {
                    let cause = "no connection in time to the server to which it was redirected";
                    return Err(self.unavailable(cause));
                }
            };
        }
        Err(self.unavailable("it was redirected too many times"))
    }

    /// The server that has a slot, and the connection to it. An attempt to connect is given up as soon as another server
    /// has the slot.
    async fn connected_owner(
        self: &Arc<Self>,
        slot: u16,
    ) -> Result<(Arc<Node>, Arc<SharedConnection>), StoreError> {
        loop {
            let begun = Instant::now();
            // Before the first map, and while a part of the cluster is down, a slot has no owner.
            let Some(node) = self.owner(slot) else {
                self.learn().await?;
                if self.owner(slot).is_none() {
                    return Err(self.unavailable("none of its servers has the slot"));
                }
                continue;
            };
            if let Some(connection) = node.connector.current() {
                return Ok((node, connection));
            }
            // The server may be down, and another one may be about to get its slots.
            // Biased: a connection that is open is used. If the slot has moved as well, the server redirects the
            // request.
            let connected = select! {
                biased;
                connected = node.connector.connection() => connected,
                () = self.until_moved(slot, &node) => continue,
            };
            match connected {
                Ok(connection) => return Ok((node, connection)),
                // The map counts if it was learnt after this attempt began.
                Err(error) => {
                    let learnt = self.state.lock().learnt;
                    if learnt.is_none_or(|learnt| learnt <= begun) {
                        // The error of the connection is more specific.
                        let _ = self.learn().await;
                    }
                    // Otherwise another server has the slot by now, and is tried next.
                    if self.has_slot(&node.place, slot) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Waits until another server has the slot.
    async fn until_moved(self: &Arc<Self>, slot: u16, node: &Node) {
        while self.has_slot(&node.place, slot) {
            // Nothing reports that a slot has moved, so the servers are asked again and again.
            sleep(MIN_LEARN_PAUSE).await;
            // If it fails, the map stays as it is.
            let _ = self.learn().await;
        }
    }

    /// The server that has a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let state = self.state.lock();
        state.slots.get(usize::from(slot)).cloned().flatten()
    }

    fn has_slot(&self, place: &HostPort, slot: u16) -> bool {
        self.owner(slot).is_some_and(|owner| owner.place == *place)
    }

    /// The servers that have slots. The map is learnt if none is known.
    async fn owners(self: &Arc<Self>) -> Result<Vec<Arc<Node>>, StoreError> {
        let known = || {
            let state = self.state.lock();
            let owners = state.slots.iter().flatten();
            let owners: BTreeMap<_, _> = owners.map(|node| (&node.place, node)).collect();
            owners.into_values().cloned().collect::<Vec<_>>()
        };
        // A map that is known is used even if it may be old: a redirection corrects it.
        let owners = known();
        if owners.is_empty() {
            self.learn().await?;
            return Ok(known());
        }
        Ok(owners)
    }

    /// The connector of any server, because each of them gets all messages. Servers with a connection come first.
    pub(super) async fn any_connector(self: &Arc<Self>) -> Result<Arc<Connector>, StoreError> {
        let mut nodes = self.owners().await?;
        if nodes.iter().any(|node| node.connector.is_connected()) {
            // A server that may be down would delay the messages.
            nodes.retain(|node| node.connector.is_connected());
        }
        // In turn, so that the attempt after a failure is made at another server.
        let turn = self.turn.fetch_add(1, Relaxed).checked_rem(nodes.len());
        let node = turn.and_then(|turn| nodes.get(turn));
        let node = node.ok_or_else(|| self.unavailable("none of its servers has slots"))?;
        Ok(Arc::clone(&node.connector))
    }

    /// The server at this place, which is known from now on.
    fn node_at(self: &Arc<Self>, place: &HostPort) -> Arc<Node> {
        let node = self.new_node(place);
        let mut state = self.state.lock();
        // Nothing is added after `close`, which has closed the servers that were known.
        if state.is_closed {
            return node;
        }
        Arc::clone(state.nodes.entry(place.clone()).or_insert(node))
    }

    fn new_node(self: &Arc<Self>, place: &HostPort) -> Arc<Node> {
        let source = Arc::new(self.server.with_place(place));
        // Weak, because the cluster owns its servers.
        let (cluster, here) = (Arc::downgrade(self), place.clone());
        let has_slot = move |slot| {
            let cluster = cluster.upgrade();
            cluster.is_some_and(|cluster| cluster.has_slot(&here, slot))
        };
        Arc::new(Node {
            place: place.clone(),
            connector: Connector::new(source, Arc::clone(&self.context), Some(Arc::new(has_slot))),
        })
    }

    /// Notes that a server has a slot, as another server reports. More slots may have moved.
    fn note_move(self: &Arc<Self>, slot: u16, place: &HostPort) -> Arc<Node> {
        let node = self.node_at(place);
        let before = {
            let mut state = self.state.lock();
            let is_open = !state.is_closed;
            let owner = state.slots.get_mut(usize::from(slot));
            // Several requests may be redirected; the first one reports the move.
            let is_new = |it: &Arc<Node>| it.place != *place;
            let owner = owner.filter(|it| is_open && it.as_ref().is_none_or(is_new));
            let before = owner.map(|owner| owner.replace(Arc::clone(&node)));
            // Under the mutex: a request that sees the new owner also sees the new generation.
            if before.is_some() {
                self.context.generation.begin();
            }
            before
        };
        if before.is_some() {
            self.context.generation.announce();
            self.learn_soon();
        }
        node
    }

    /// A number that changes whenever another connection, or another server, responds for a slot.
    pub(super) fn generation_of(&self, slot: u16) -> u64 {
        // What was executed by the server to which a slot moves is not at the replicas of its owner, so a request with
        // ASKING counts as a change.
        let asked = self.state.lock().asked.get(&slot).copied();
        self.context.generation.number() + asked.unwrap_or_default()
    }

    /// Closes all connections, and opens no others.
    pub(super) fn close(&self) {
        let nodes = {
            let mut state = self.state.lock();
            state.is_closed = true;
            mem::take(&mut state.nodes)
        };
        // After the mutex was released: this ends the tasks of the connections, which may use the cluster.
        nodes.values().for_each(|node| node.connector.close());
    }

    /// The name of the cluster in messages.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        format!("the cluster of {}", HostPort::list(&self.seeds)).into()
    }

    fn unavailable(&self, cause: &'static str) -> StoreError {
        StoreError::not_connected(&self.endpoint(), cause)
    }
}

/// The server to which a request is redirected by the server at `asked`, and how the request is sent there.
fn redirection(error: &RedisError, asked: &HostPort) -> Option<(HostPort, SendMode)> {
    let mode = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => SendMode::Plain,
        ErrorKind::Server(ServerErrorKind::Ask) => SendMode::Asking,
        _ => return None,
    };
    // `host:port`, or `:port` if it does not know its own name.
    let (host, port) = HostPort::split(error.redirect_node()?.0)?;
    // The name of a host in a map has no brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((HostPort::named_by(asked, host, port?), mode))
}

/// Returns whether another server may have the slot by now: this one does not see most of the others, or is no longer a
/// primary.
fn may_be_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{ClusterDown, MasterDown};
    is_read_only(error)
        || condition(error) == Some("NOREPLICAS")
        || matches!(error.kind(), ErrorKind::Server(ClusterDown | MasterDown))
}
