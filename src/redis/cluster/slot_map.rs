//! The slot map of a cluster: which server has which slots. Several servers are asked in parallel, and for each slot the
//! latest owner counts.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::join;
use redis::{FromRedisValue, Value, cmd};
use tokio::time::Instant;

use super::{Cluster, ClusterState, Node};
use crate::base::error::StoreError;
use crate::base::key::SLOTS;
use crate::base::timer::sleep_until;
use crate::redis::context::with_timeout;
use crate::redis::failure::request_error;
use crate::redis::self_description;
use crate::redis::shared_attempts::ask_most;
use crate::redis::source::HostPort;

/// The number of servers that are asked for the map in parallel. One more is asked for each unavailable one.
const SERVERS_ASKED: usize = 5;

impl Cluster {
    /// Learns the map in the background. If that fails, it is tried again when the map proves wrong again.
    pub(super) fn learn_soon(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        drop(tokio::spawn(async move { cluster.learn().await }));
    }

    /// Learns the map, or waits for the attempt in progress.
    pub(super) async fn learn(self: &Arc<Self>) -> Result<(), StoreError> {
        let limit = self.context.timeouts.connect.saturating_mul(4);
        let learn = || Arc::clone(self).learn_now();
        self.learning.outcome(&self.endpoint(), limit, learn).await
    }

    async fn learn_now(self: Arc<Self>) -> Result<(), StoreError> {
        // Requests find the map wrong all at once, and again and again while a server is down.
        let learns_at = self.state.lock().learns_at;
        sleep_until(learns_at).await;
        let map = self.ask_for_map().await;
        // Read before the new map is there, to find whether this slot has moved.
        let describer = self.owner(self_description::slot());
        let (is_changed, _gone) = {
            let mut state = self.state.lock();
            // A failure counts too. Otherwise the next attempt would follow without a pause.
            state.note_learning(Instant::now());
            if state.is_closed {
                return Err(StoreError::closed(&self.endpoint()));
            }
            // `_gone` is dropped after the mutex was released, because that may end connections with their tasks.
            self.install(&mut state, &map?)
        };
        if is_changed {
            self.context.generation.announce();
        }
        // A server that has just received the slot of the description may not have the description.
        let is_new = |node: &Arc<Node>| describer.is_none_or(|it| !Arc::ptr_eq(&it, node));
        if let Some(node) = self.owner(self_description::slot()).filter(is_new) {
            let connector = Arc::clone(&node.connector);
            drop(tokio::spawn(connector.describe_soon()));
        }
        Ok(())
    }

    /// Asks several servers for their maps.
    async fn ask_for_map(self: &Arc<Self>) -> Result<Vec<SlotRange>, StoreError> {
        let places = self.places_to_ask().into_iter();
        let asked = places.map(|place| self.ask_for_map_of(self.node_at(&place)));
        // The answers that arrive until then count.
        let limit = self.context.timeouts.connect;
        let (maps, error) = ask_most(asked, SERVERS_ASKED, Duration::MAX, limit).await;
        let map: Vec<_> = maps.into_iter().flatten().collect();
        match error {
            // One server is enough. The errors of others do not matter then.
            _ if !map.is_empty() => Ok(map),
            Some(error) => {
                let (endpoint, class) = (self.endpoint(), error.failure_class());
                let mistake = error.mistake();
                Err(StoreError::new("connect", &endpoint, class, error).with_mistake(mistake))
            }
            None => Err(self.unavailable("none of its servers responds")),
        }
    }

    async fn ask_for_map_of(&self, node: Arc<Node>) -> Result<Vec<SlotRange>, StoreError> {
        let driver = node.connector.any_connection().await?;
        let endpoint = node.connector.endpoint();
        let ask = async |subcommand| {
            let (mut driver, mut command) = (driver.clone(), cmd("CLUSTER"));
            let reply = command.arg(subcommand).query_async::<Value>(&mut driver);
            let reply = with_timeout(self.context.timeouts.response, reply).await;
            reply.map_err(|error| request_error("cluster", &endpoint, error))
        };
        let (slots, nodes) = join(ask("SLOTS"), ask("NODES")).await;
        // A user may not be allowed to see the epochs. Then the first answer counts.
        let nodes = nodes.unwrap_or(Value::Nil);
        let map = read_map(&slots?, &nodes, &node.place);
        map.ok_or_else(|| self.unavailable("the response to CLUSTER SLOTS is invalid"))
    }

    /// All servers in the order in which they are asked: first some that have a connection, then all others in turn.
    fn places_to_ask(&self) -> Vec<HostPort> {
        let nodes: Vec<_> = self.state.lock().nodes.values().cloned().collect();
        let connected = nodes.iter().filter(|node| node.connector.is_connected());
        // One of those that are asked first is from the others, which otherwise might never be asked.
        let connected = connected.map(|node| &node.place).take(SERVERS_ASKED - 1);
        let mut places: Vec<_> = connected.collect();
        let all = nodes.iter().map(|node| &node.place).chain(&self.seeds);
        let others: BTreeSet<_> = all.filter(|place| !places.contains(place)).collect();
        let mut others: Vec<_> = others.into_iter().collect();
        // In turn, so that each of them is asked some time, even if those that come first never respond.
        let turn = self.turn.fetch_add(1, Relaxed).checked_rem(others.len());
        others.rotate_left(turn.unwrap_or_default());
        places.append(&mut others);
        places.into_iter().cloned().collect()
    }

    /// Replaces the present map. Returns whether a slot has another owner in it, and the servers that are not in it.
    fn install(
        self: &Arc<Self>,
        state: &mut ClusterState,
        map: &[SlotRange],
    ) -> (bool, BTreeMap<HostPort, Arc<Node>>) {
        // The connections that were opened to ask are kept in use.
        let mut before = mem::take(&mut state.nodes);
        for place in map.iter().flat_map(SlotRange::places) {
            // A server that stays keeps its connection. It may be in several ranges.
            let known = state.nodes.remove(place).or_else(|| before.remove(place));
            let node = known.unwrap_or_else(|| self.new_node(place));
            state.nodes.insert(place.clone(), node);
        }
        let owners = latest_owners(map).into_iter();
        let slots = owners.map(|owner| state.nodes.get(&owner?.primary).cloned());
        let slots: Vec<_> = slots.collect();
        let mut pairs = state.slots.iter().zip(&slots);
        let is_changed = pairs.any(|pair| match pair {
            (Some(before), Some(now)) => before.place != now.place,
            (before, now) => before.is_some() != now.is_some(),
        });
        // Under the mutex: a request that sees the new map also sees the new generation.
        if is_changed {
            state.pauses.reset();
            self.context.generation.begin();
        }
        state.slots = slots;
        (is_changed, before)
    }
}

/// A range of slots, as one server reports it.
#[derive(Debug)]
struct SlotRange {
    first: u16,
    last: u16,
    primary: HostPort,
    replicas: Vec<HostPort>,
    /// The configuration epoch, which grows whenever slots get another owner. Of several owners the one with the
    /// greatest epoch counts.
    epoch: u64,
}

impl SlotRange {
    /// Reads `first, last, [host, port, id, …], replicas…`. A server that does not know its own name omits its host.
    fn read(range: &Value, epochs: &BTreeMap<&str, u64>, asked: &HostPort) -> Option<Self> {
        let range = Vec::<Value>::from_redis_value_ref(range).ok()?;
        let [first, last, primary, replicas @ ..] = range.as_slice() else {
            return None;
        };
        let (primary, id) = read_node(primary, asked)?;
        // Without an epoch it counts as the earliest.
        let epoch = id.and_then(|id| epochs.get(&*id).copied());
        let replicas = replicas.iter().filter_map(|node| read_node(node, asked));
        Some(Self {
            first: u16::from_redis_value_ref(first).ok()?,
            last: u16::from_redis_value_ref(last).ok()?,
            primary,
            replicas: replicas.map(|(place, _)| place).collect(),
            epoch: epoch.unwrap_or_default(),
        })
    }

    /// The places of its servers.
    fn places(&self) -> impl Iterator<Item = &HostPort> {
        self.replicas.iter().chain([&self.primary])
    }
}

/// Reads the responses to `CLUSTER SLOTS` and `CLUSTER NODES` of the server at `asked`; `None` if they cannot be read.
fn read_map(slots: &Value, nodes: &Value, asked: &HostPort) -> Option<Vec<SlotRange>> {
    let nodes = String::from_redis_value_ref(nodes).unwrap_or_default();
    let epochs: BTreeMap<_, _> = nodes.lines().filter_map(epoch).collect();
    let slots = Vec::<Value>::from_redis_value_ref(slots).ok()?;
    let ranges = slots.iter();
    ranges
        .map(|range| SlotRange::read(range, &epochs, asked))
        .collect()
}

/// The id of a node, and its epoch: `id address flags primary ping pong epoch link slots…`.
fn epoch(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.nth(5)?.parse().ok()?))
}

/// The place of a server, and its id.
fn read_node(node: &Value, asked: &HostPort) -> Option<(HostPort, Option<String>)> {
    let node = Vec::<Value>::from_redis_value_ref(node).ok()?;
    let [host, port, rest @ ..] = node.as_slice() else {
        return None;
    };
    let host = Option::<String>::from_redis_value_ref(host).ok()?;
    let port = u16::from_redis_value_ref(port).ok()?;
    let place = HostPort::named_by(asked, host.as_deref().unwrap_or_default(), port);
    let id = rest.first().map(String::from_redis_value_ref);
    Some((place, id.and_then(Result::ok)))
}

/// The range with the owner of each slot. Of several owners it is the latest one.
fn latest_owners(map: &[SlotRange]) -> Vec<Option<&SlotRange>> {
    let mut owners: Vec<Option<&SlotRange>> = vec![None; usize::from(SLOTS)];
    for range in map {
        let slots = usize::from(range.first)..=usize::from(range.last);
        // Servers that were cut off report an owner that has lost the slot. They have an earlier epoch of it.
        for owner in owners.get_mut(slots).unwrap_or_default() {
            if owner.is_none_or(|known| known.epoch < range.epoch) {
                *owner = Some(range);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: &str, port: i64, id: &str) -> Value {
        let primary = Value::Array(vec![text(host), Value::Int(port), text(id)]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary])
    }

    fn map(ranges: Vec<Value>, nodes: &str) -> Vec<SlotRange> {
        let asked = HostPort::new("asked", 1);
        read_map(&Value::Array(ranges), &text(nodes), &asked).expect("a map")
    }

    fn owner(map: &[SlotRange], slot: usize) -> Option<String> {
        latest_owners(map)[slot].map(|owner| owner.primary.to_string())
    }

    #[test]
    fn each_slot_of_a_range_has_its_owner() {
        let map = map(
            vec![range(0, 9, "a", 1, "x"), range(20, 29, "", 2, "y")],
            "",
        );
        assert_eq!(owner(&map, 9).as_deref(), Some("a:1"));
        assert_eq!(owner(&map, 10), None);
        assert_eq!(owner(&map, 20).as_deref(), Some("asked:2"));
    }

    #[test]
    fn of_two_that_claim_a_slot_the_later_one_has_it() {
        let nodes = |old, new| {
            format!(
                "x 10.0.0.1:1@2 master - 0 0 {old} connected 0-9\ny 10.0.0.2:1@2 master - 0 0 {new} connected\n"
            )
        };
        for (old, new, has) in [(1, 7, "b:1"), (7, 1, "a:1")] {
            let mut one = map(vec![range(0, 9, "a", 1, "x")], &nodes(old, new));
            one.extend(map(vec![range(5, 5, "b", 1, "y")], &nodes(old, new)));
            assert_eq!(owner(&one, 5).as_deref(), Some(has));
            assert_eq!(owner(&one, 4).as_deref(), Some("a:1"));
        }
    }
}
