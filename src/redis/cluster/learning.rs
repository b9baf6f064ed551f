//! The learning of the map: several servers are asked in parallel, and for each slot the latest owner counts.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::join;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::map::SlotMap;
use super::{Cluster, Known, Node};
use crate::base::error::StoreError;
use crate::base::timer::{after, sleep_until};
use crate::redis::address::Place;
use crate::redis::ask_most::ask_most;
use crate::redis::attempt::Attempt;
use crate::redis::failure::{failed, within};
use crate::redis::introduction;

/// The number of servers that are asked for the map in parallel. One more is asked for each unavailable one.
const ASKED: usize = 5;

impl Cluster {
    /// Learns the map in the background. If that fails, it is tried again when the map proves wrong again.
    pub(in crate::redis) fn learn_soon(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        drop(tokio::spawn(async move { cluster.learn().await }));
    }

    /// Learns the map, or waits for the attempt in progress.
    pub(super) async fn learn(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.known.lock().is_closed {
            return Err(self.closed());
        }
        let limit = self.common.timeouts.connect.saturating_mul(4);
        let begin = || {
            let until = after(Instant::now(), limit);
            Attempt::begin(&self.endpoint(), until, Arc::clone(self).learn_now())
        };
        self.learning.outcome(begin).await
    }

    async fn learn_now(self: Arc<Self>) -> Result<(), StoreError> {
        let learns_at = self.known.lock().learns_at;
        if let Some(at) = learns_at {
            sleep_until(at).await;
        }
        let map = self.ask_for_map().await;
        let describer = self.owner(introduction::slot());
        let (is_changed, _gone) = {
            let mut known = self.known.lock();
            known.learn(Instant::now());
            if known.is_closed {
                return Err(self.closed());
            }
            self.install(&mut known, &map?)
        };
        if is_changed {
            self.common.generation.announce();
        }
        let is_new = |node: &Arc<Node>| describer.is_none_or(|it| !Arc::ptr_eq(&it, node));
        if let Some(node) = self.owner(introduction::slot()).filter(is_new) {
            let connector = Arc::clone(&node.connector);
            drop(tokio::spawn(connector.introduce_soon()));
        }
        Ok(())
    }

    /// Asks several servers. Returns the map that results from their answers.
    async fn ask_for_map(self: &Arc<Self>) -> Result<SlotMap, StoreError> {
        let places = self.to_ask().into_iter();
        let asked = places.map(|place| self.map_of(self.node(&place)));
        // The answers that arrive until then count.
        let limit = self.common.timeouts.connect;
        let (maps, error) = ask_most(asked, ASKED, Duration::MAX, limit).await;
        let mut map = SlotMap::default();
        maps.into_iter().for_each(|other| map.merge(other));
        match error {
            _ if !map.is_empty() => Ok(map),
            Some(error) => {
                let (endpoint, effect) = (self.endpoint(), error.effect());
                let mistake = error.mistake();
                Err(StoreError::new("connect", &endpoint, effect, error).with_mistake(mistake))
            }
            None => Err(self.failed("none of its servers responds")),
        }
    }

    /// Replaces the present map. Returns whether a slot has another owner in it, and the servers that are not in it.
    fn install(
        self: &Arc<Self>,
        known: &mut Known,
        map: &SlotMap,
    ) -> (bool, BTreeMap<Place, Arc<Node>>) {
        // The connections that were opened to ask are kept in use.
        let mut before = mem::take(&mut known.nodes);
        for place in map.places() {
            let node = before.remove(&place);
            let node = node.unwrap_or_else(|| self.new_node(&place));
            known.nodes.insert(place, node);
        }
        let owners = map.owners().into_iter();
        let slots: Vec<_> = owners
            .map(|place| known.nodes.get(place?).cloned())
            .collect();
        let mut pairs = known.slots.iter().zip(&slots);
        let place = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.place.clone());
        let is_changed = pairs.any(|(before, now)| place(before) != place(now));
        if is_changed {
            known.pauses.reset();
            self.common.generation.begin();
        }
        known.slots = slots;
        (is_changed, before)
    }

    /// All servers in the order in which they are asked: first some that have a connection, then all others in turn.
    fn to_ask(&self) -> Vec<Place> {
        let nodes: Vec<_> = self.known.lock().nodes.values().cloned().collect();
        let places = nodes.iter().map(|node| &node.place).chain(&self.seeds);
        let others: BTreeSet<_> = places.cloned().collect();
        let connected = nodes.iter().filter(|node| node.connector.is_connected());
        let connected = connected.map(|node| node.place.clone());
        let mut asked: Vec<_> = connected.take(ASKED - 1).collect();
        let others = others.into_iter().filter(|place| !asked.contains(place));
        let mut others: Vec<_> = others.collect();
        let turn = self.turn.fetch_add(1, Relaxed);
        let first = turn.checked_rem(others.len()).unwrap_or_default();
        others.rotate_left(first);
        asked.append(&mut others);
        asked
    }

    async fn map_of(&self, node: Arc<Node>) -> Result<SlotMap, StoreError> {
        let driver = node.connector.any_connection().await?;
        let endpoint = node.connector.endpoint();
        let ask = async |verb| {
            let (mut driver, mut command) = (driver.clone(), cmd("CLUSTER"));
            let asked = command.arg(verb).query_async::<Value>(&mut driver);
            let answered = within(self.common.timeouts.response, asked).await;
            answered.map_err(|error| failed("cluster", &endpoint, error))
        };
        let (slots, nodes) = join(ask("SLOTS"), ask("NODES")).await;
        // A user may not be allowed to see the epochs. Then the first answer counts.
        let nodes = nodes.unwrap_or(Value::Nil);
        let map = SlotMap::read(&slots?, &nodes, &node.place);
        map.ok_or_else(|| self.failed("the response to CLUSTER SLOTS is invalid"))
    }
}
