//! How the map is learnt: from several servers at once, of which the latest word on each slot counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use deadpool_redis::redis::cmd;
use futures_util::{
    future::join,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::Instant;

use super::{Cluster, Known, Node, PAUSE, map::SlotMap};
use crate::{
    base::{
        error::StoreError,
        slot::SLOTS,
        timer::{after, sleep_until, timeout_at},
    },
    store::redis::{
        address::Place,
        script::{Call, Way},
    },
};

/// How many servers are asked for the map at once.
const ASKED: usize = 5;

/// How long the answers of the other servers are waited for once most of them have answered.
const GRACE: Duration = Duration::from_millis(100);

impl Cluster {
    /// Learns the map, or waits for the attempt that is under way.
    pub(super) async fn learn(self: &Arc<Self>) -> Result<(), StoreError> {
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
        let nodes = self.to_ask();
        let asked = nodes.iter().map(|node| self.map_of(node));
        let mut asked = asked.collect::<FuturesUnordered<_>>();
        let (mut map, mut answers, mut error) = (SlotMap::default(), 0, None);
        let mut until = after(Instant::now(), self.common.timeouts.connect);
        while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
            match answer {
                Ok(other) => {
                    map.merge(other);
                    answers += 1;
                    if answers == nodes.len() / 2 + 1 {
                        until = until.min(after(Instant::now(), GRACE));
                    }
                }
                Err(failed) => error = Some(failed),
            }
        }
        drop(asked);
        let mut known = self.known.lock();
        known.learnt = Some(Instant::now());
        if known.is_closed {
            return Err(self.failed("it was closed"));
        }
        if map.is_empty() {
            return Err(error.unwrap_or_else(|| self.failed("no server of it answers")));
        }
        let changed = self.replace(&mut known, &map, nodes);
        let owners = changed
            .iter()
            .filter_map(|&slot| known.slots.get(usize::from(slot))?.clone());
        let owners: BTreeMap<_, _> = owners.map(|node| (node.place.clone(), node)).collect();
        drop(known);
        self.common.outages.at(changed);
        for node in owners.into_values() {
            // One that is not connected yet does so when it is.
            drop(tokio::spawn(async move {
                node.connector.repeat_releases().await
            }));
        }
        Ok(())
    }

    /// Some of all servers: first those that have slots and a connection, then the others in turn.
    fn to_ask(self: &Arc<Self>) -> Vec<Arc<Node>> {
        let (nodes, others) = {
            let known = self.known.lock();
            let places = known.places.iter().chain(&self.seeds);
            let others: BTreeSet<_> = places.cloned().collect();
            let others: Vec<Place> = others.into_iter().collect();
            let nodes: Vec<_> = known.nodes.values().cloned().collect();
            (nodes, others)
        };
        let connected = nodes
            .into_iter()
            .filter(|node| node.connector.is_connected());
        let mut asked: Vec<_> = connected.take(ASKED - 1).collect();
        let turn = self.turn.fetch_add(1, Relaxed);
        let count = others.len();
        let others = others
            .into_iter()
            .cycle()
            .skip(turn % count.max(1))
            .take(count);
        for place in others {
            if asked.len() < ASKED && !asked.iter().any(|node| node.place == place) {
                asked.push(self.node(&place));
            }
        }
        asked
    }

    async fn map_of(&self, node: &Arc<Node>) -> Result<SlotMap, StoreError> {
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
}
