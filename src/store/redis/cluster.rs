//! The servers of a cluster: which of them has a slot, and a connector to each.
//!
//! The map is learnt at the start, from several servers at once, and again whenever it proves wrong: a redirection, a
//! server that is away, a cluster that is down. A request follows redirections and nothing else: no failure makes it go
//! out twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::{ErrorKind, ServerErrorKind, Value, cmd};
use futures_util::{
    future::join,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{select, time::Instant};

use self::map::{SlotMap, redirected};
use super::{
    address::{Address, Place},
    attempt::Attempt,
    connect::{Common, Connector},
    connection::{Cause, Connection},
    pushes::Receiver,
    reply::Unexpected,
    script::{Call, Way, condition},
    source::{Following, Limit, Opened, Source, Timeouts, open},
};
use crate::base::{
    error::{Effect, StoreError},
    mutex::Mutex,
    slot::SLOTS,
    timer::{Elapsed, after, sleep, sleep_until, timeout_at},
};

mod map;

/// How many redirections a request follows.
const REDIRECTIONS: usize = 5;

/// How many servers are asked for the map at once, and one more for each that is away.
const ASKED: usize = 5;

/// How long the answers of the other servers are waited for once most of them have answered, and after which silence one
/// more is asked.
const GRACE: Duration = Duration::from_millis(100);

/// The least pause between two attempts to learn the map.
const PAUSE: Duration = Duration::from_millis(100);

/// The servers of a cluster.
pub(super) struct Cluster {
    /// How they are connected to: one of them.
    server: Address,
    seeds: Vec<Place>,
    common: Common,
    known: Mutex<Known>,
    learning: Attempt<Result<(), StoreError>>,
    /// Whose turn it is among servers that are equally good.
    turn: AtomicUsize,
}

/// What is known of the servers.
#[derive(Debug, Default)]
struct Known {
    /// Those that have slots, and those to which a slot is being moved.
    nodes: BTreeMap<Place, Arc<Node>>,
    /// Who has each slot. Empty until the map was learnt.
    slots: Vec<Option<Arc<Node>>>,
    /// All of them, replicas too.
    places: BTreeSet<Place>,
    learnt: Option<Instant>,
    is_closed: bool,
}

/// A server, and the connection to it.
#[derive(Debug)]
struct Node {
    place: Place,
    connector: Arc<Connector>,
}

impl Cluster {
    /// Asks none of them yet. `server` says how they are connected to, wherever they are.
    pub(super) fn new(server: Address, seeds: Vec<Place>, common: Common) -> Self {
        Self {
            server,
            seeds,
            common,
            known: Mutex::default(),
            learning: Attempt::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// For messages.
    pub(super) fn endpoint(&self) -> Arc<str> {
        let seeds: Vec<_> = self.seeds.iter().map(Place::to_string).collect();
        format!("the cluster of {}", seeds.join(",")).into()
    }

    /// Learns the map, unless it is there, and connects to one of the servers that have slots.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
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
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let slot = call.slot();
        let (mut node, mut connection) = self.connected(slot).await?;
        let mut way = Way::Plain;
        let until = after(Instant::now(), self.common.timeouts.response);
        for _ in 0..REDIRECTIONS {
            let limit = until.saturating_duration_since(Instant::now());
            let cause = match node.connector.ask(&connection, &call, way, limit).await {
                Ok(reply) => {
                    let read = read(reply);
                    return read.map_err(|cause| connection.error(&call, Effect::Unknown, cause));
                }
                Err(cause) => cause,
            };
            (node, way) = match redirection(&cause, &node.place) {
                Some((place, Way::Plain)) => (self.moved(slot, &place), Way::Plain),
                Some((place, Way::Asking)) => (self.kept(&place), Way::Asking),
                None => {
                    if may_be_elsewhere(&cause) {
                        self.learn_soon();
                    }
                    return Err(connection.failed(&call, cause));
                }
            };
            connection = match timeout_at(until, node.connector.connection()).await {
                Ok(connection) => connection?,
                Err(Elapsed) => {
                    let cause = "no connection in time to the server that it was redirected to";
                    return Err(self.failed(cause));
                }
            };
        }
        Err(self.failed("it was redirected too often"))
    }

    /// The server that has a slot, and a connection to it. An attempt to connect goes over to another server as soon as
    /// the slot is there.
    async fn connected(self: &Arc<Self>, slot: u16) -> Result<(Arc<Node>, Connection), StoreError> {
        loop {
            let Some(node) = self.owner(slot) else {
                self.learn().await?;
                if self.owner(slot).is_none() {
                    return Err(self.failed("no server of it has the slot"));
                }
                continue;
            };
            if let Some(connection) = node.connector.present() {
                return Ok((node, connection));
            }
            let connection = select! {
                biased;
                connection = node.connector.connection() => connection,
                () = self.until_moved(slot, &node) => continue,
            };
            match connection {
                Ok(connection) => return Ok((node, connection)),
                Err(error) => {
                    // The error of the connection says more.
                    let _ = self.learn().await;
                    if self.has(&node, slot) {
                        return Err(error);
                    }
                }
            }
        }
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
        self.owner(slot)
            .is_some_and(|owner| Arc::ptr_eq(&owner, node))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.known.lock().nodes.values().cloned().collect()
    }

    /// One of those that have slots, in turn: of those with a connection, if there are some.
    fn any_node(&self) -> Option<Arc<Node>> {
        let mut nodes = self.nodes();
        if nodes.iter().any(|node| node.connector.is_connected()) {
            nodes.retain(|node| node.connector.is_connected());
        }
        let turn = self.turn.fetch_add(1, Relaxed).checked_rem(nodes.len())?;
        nodes.into_iter().nth(turn)
    }

    /// The server at this place, known or not.
    fn node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let known = self.known.lock().nodes.get(place).cloned();
        known.unwrap_or_else(|| self.new_node(place))
    }

    /// The same, which keeps its connection for the next request from now on.
    fn kept(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let node = self.new_node(place);
        let mut known = self.known.lock();
        if known.is_closed {
            return node;
        }
        Arc::clone(known.nodes.entry(place.clone()).or_insert(node))
    }

    fn new_node(self: &Arc<Self>, place: &Place) -> Arc<Node> {
        let source = Source::Server(Arc::new(self.server.at(place)));
        let (cluster, lost) = (Arc::downgrade(self), place.clone());
        let lost = move || cluster.upgrade().iter().for_each(|it| it.lost(&lost));
        let connector = Connector::new(source, self.common.clone(), lost);
        Arc::new(Node {
            place: place.clone(),
            connector: Arc::new(connector),
        })
    }

    /// A connection to a server was lost, and maybe the data of its slots.
    fn lost(&self, place: &Place) {
        let concerned: Vec<u16> = {
            let known = self.known.lock();
            let is_there =
                |owner: &Option<Arc<Node>>| owner.as_ref().is_some_and(|node| node.place == *place);
            let slots = (0..SLOTS).zip(&known.slots);
            slots
                .filter(|(_, owner)| is_there(owner))
                .map(|(slot, _)| slot)
                .collect()
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
            let is_news = |owner: &Option<_>| {
                owner
                    .as_ref()
                    .is_none_or(|it: &Arc<Node>| it.place != *place)
            };
            let owner = owner.filter(|owner| is_open && is_news(owner));
            owner.map(|owner| owner.replace(Arc::clone(&node)))
        };
        if before.is_some() {
            self.common.outages.at([slot]);
            self.learn_soon();
        }
        node
    }

    /// Learns the map in the background. Where that fails, it is tried again when the map proves wrong again.
    fn learn_soon(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        drop(tokio::spawn(async move { cluster.learn().await }));
    }

    /// Learns the map, or waits for the attempt that is under way.
    async fn learn(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.known.lock().is_closed {
            return Err(self.closed());
        }
        let limit = self.common.timeouts.connect.saturating_mul(4);
        let begin = || {
            let cluster = Arc::clone(self);
            async move { cluster.ask_for_map().await }
        };
        self.learning.outcome(limit, begin).await
    }

    async fn ask_for_map(self: Arc<Self>) -> Result<(), StoreError> {
        let learnt = self.known.lock().learnt;
        if let Some(learnt) = learnt {
            sleep_until(after(learnt, PAUSE)).await;
        }
        let mut places = self.to_ask().into_iter();
        let mut nodes: Vec<_> = places
            .by_ref()
            .take(ASKED)
            .map(|it| self.node(&it))
            .collect();
        let most = nodes.len() / 2 + 1;
        let asked = nodes.iter().map(|node| self.map_of(Arc::clone(node)));
        let mut asked = asked.collect::<FuturesUnordered<_>>();
        let (mut map, mut answers, mut error) = (SlotMap::default(), 0, None);
        let mut until = after(Instant::now(), self.common.timeouts.connect);
        loop {
            let silence = after(Instant::now(), GRACE);
            let patience = if answers == 0 {
                until.min(silence)
            } else {
                until
            };
            match timeout_at(patience, asked.next()).await {
                Ok(Some(Ok(other))) => {
                    map.merge(other);
                    answers += 1;
                    if answers == most {
                        until = until.min(after(Instant::now(), GRACE));
                    }
                    continue;
                }
                Ok(Some(Err(failed))) => {
                    let is_final = |known: &StoreError| known.effect() == Effect::Refused;
                    if error.as_ref().is_none_or(is_final) {
                        error = Some(failed);
                    }
                }
                Ok(None) => break,
                Err(Elapsed) if until <= Instant::now() => break,
                Err(Elapsed) => {}
            }
            // Another one instead of one that is away.
            if let Some(place) = places.next() {
                let node = self.node(&place);
                asked.push(self.map_of(Arc::clone(&node)));
                nodes.push(node);
            }
        }
        drop(asked);
        let mut known = self.known.lock();
        known.learnt = Some(Instant::now());
        if known.is_closed {
            return Err(self.closed());
        }
        if map.is_empty() {
            return Err(match error {
                Some(error) => StoreError::new("connect", &self.endpoint(), error.effect(), error),
                None => self.failed("no server of it answers"),
            });
        }
        let changed = self.replace(&mut known, &map, nodes);
        drop(known);
        self.common.outages.at(changed);
        Ok(())
    }

    /// All servers in the order in which they are asked: some of those that have slots and a connection, then all others
    /// in turn.
    fn to_ask(&self) -> Vec<Place> {
        let (nodes, others) = {
            let known = self.known.lock();
            let places = known.places.iter().chain(&self.seeds);
            let others: BTreeSet<_> = places.cloned().collect();
            let nodes: Vec<_> = known.nodes.values().cloned().collect();
            (nodes, others)
        };
        let connected = nodes
            .into_iter()
            .filter(|node| node.connector.is_connected());
        let connected = connected.map(|node| node.place.clone());
        let mut asked: Vec<_> = connected.take(ASKED - 1).collect();
        let turn = self.turn.fetch_add(1, Relaxed);
        let others: Vec<_> = others
            .into_iter()
            .filter(|place| !asked.contains(place))
            .collect();
        let first = turn.checked_rem(others.len()).unwrap_or_default();
        asked.extend_from_slice(others.get(first..).unwrap_or_default());
        asked.extend_from_slice(others.get(..first).unwrap_or_default());
        asked
    }

    async fn map_of(&self, node: Arc<Node>) -> Result<SlotMap, StoreError> {
        let connection = node.connector.connection().await?;
        let limit = self.common.timeouts.response;
        let ask = async |verb| {
            let command = cmd("CLUSTER").arg(verb).to_owned();
            let call = Call::command("cluster", command);
            let asked = node
                .connector
                .ask(&connection, &call, Way::Plain, limit)
                .await;
            asked.map_err(|cause| connection.failed(&call, cause))
        };
        let (slots, nodes) = join(ask("SLOTS"), ask("NODES")).await;
        // Without the epochs, which a user may not be allowed to see, the first answer counts.
        let nodes = nodes.unwrap_or_default();
        let map = SlotMap::read(&slots?, &nodes, &node.place);
        map.ok_or_else(|| self.failed("the answer to CLUSTER SLOTS cannot be read"))
    }

    /// Puts a map in place of the present one. Returns the slots that have another owner.
    fn replace(
        self: &Arc<Self>,
        known: &mut Known,
        map: &SlotMap,
        asked: Vec<Arc<Node>>,
    ) -> Vec<u16> {
        // What was connected for the question is used further.
        let asked: BTreeMap<_, _> = asked
            .into_iter()
            .map(|node| (node.place.clone(), node))
            .collect();
        let before = std::mem::take(&mut known.nodes);
        let mut nodes = BTreeMap::<Place, Arc<Node>>::new();
        let slots = map.owners().into_iter().map(|place| {
            let place = place?;
            let node = nodes.entry(place.clone()).or_insert_with(|| {
                let node = before.get(place).or_else(|| asked.get(place)).cloned();
                node.unwrap_or_else(|| self.new_node(place))
            });
            Some(Arc::clone(node))
        });
        let slots: Vec<_> = slots.collect();
        let pairs = (0..SLOTS).zip(known.slots.iter().zip(&slots));
        let place = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.place.clone());
        let changed = pairs.filter(|(_, (before, now))| place(before) != place(now));
        let changed = changed.map(|(slot, _)| slot).collect();
        known.places = map.places();
        known.nodes = nodes;
        known.slots = slots;
        changed
    }

    /// A connection to one of the servers, for messages: they reach each of them. The receiver is told that it has
    /// ended as soon as that server proves to be away.
    pub(super) async fn open_any(
        self: &Arc<Self>,
        timeouts: Timeouts,
        limit: Limit,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        if self.nodes().is_empty() {
            self.learn().await?;
        }
        let Some(node) = self.any_node() else {
            return Err(self.failed("no server of it has slots"));
        };
        let mut ends = node.connector.ends();
        let opened = open(&self.server.at(&node.place), timeouts, limit, receiver).await?;
        let ended = Arc::clone(&receiver.ended);
        drop(node);
        let following = tokio::spawn(async move {
            // It fails where the server has no slots any more.
            let _ = ends.changed().await;
            ended();
        });
        let following = Some(Following::new(&following));
        Ok(Opened {
            following,
            ..opened
        })
    }

    /// How long a request about a slot that is sent now may take.
    pub(super) fn answers_within(&self, slot: u16) -> Duration {
        let owner = self.owner(slot);
        owner.map_or(Duration::MAX, |node| node.connector.answers_within())
    }

    /// Changes whenever another connection, or another server, answers for a slot.
    pub(super) fn epoch(&self, slot: u16) -> u64 {
        self.owner(slot).map_or(0, |node| node.connector.epoch())
    }

    pub(super) fn suspect(&self, slot: u16, since: Instant) {
        self.owner(slot)
            .iter()
            .for_each(|node| node.connector.suspect(since));
    }

    /// Closes all connections, and makes no other ones.
    pub(super) fn close(&self) {
        let nodes = {
            let mut known = self.known.lock();
            known.is_closed = true;
            std::mem::take(&mut known.nodes)
        };
        nodes.values().for_each(|node| node.connector.close());
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

/// Where a server says that a request is to go, and how.
fn redirection(cause: &Cause, asked: &Place) -> Option<(Place, Way)> {
    let Cause::Driver(error) = cause else {
        return None;
    };
    let way = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => Way::Plain,
        ErrorKind::Server(ServerErrorKind::Ask) => Way::Asking,
        _ => return None,
    };
    let (address, _) = error.redirect_node()?;
    Some((redirected(address, asked)?, way))
}

/// Whether another server may answer by now: this one has lost sight of most others, or is no primary any more.
fn may_be_elsewhere(cause: &Cause) -> bool {
    let Cause::Driver(error) = cause else {
        return false;
    };
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly
        )
    ) || condition(error) == Some("READONLY")
}

/// Without what the address knows: the password.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}
