//! The map of a cluster, which says what server has what slots.

use std::collections::{BTreeMap, BTreeSet};

use redis::{FromRedisValue, Value};

use crate::base::key::SLOTS;
use crate::redis::address::Place;

/// The servers of the slots, as one or several servers report them.
#[derive(Debug, Default)]
pub(super) struct SlotMap {
    ranges: Vec<SlotRange>,
    replicas: BTreeSet<Place>,
}

#[derive(Clone, Debug)]
struct SlotRange {
    first: u16,
    last: u16,
    owner: SlotOwner,
}

/// The owner of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotOwner {
    place: Place,
    /// The configuration epoch, which grows whenever slots get another owner. Of several owners the one with the
    /// greatest epoch counts.
    epoch: u64,
}

impl SlotMap {
    /// Reads the responses to `CLUSTER SLOTS` and `CLUSTER NODES` of the server at `asked`; `None` if they cannot be
    /// read.
    pub(super) fn read(slots: &Value, nodes: &Value, asked: &Place) -> Option<Self> {
        let nodes = String::from_redis_value_ref(nodes).unwrap_or_default();
        let epochs: BTreeMap<_, _> = nodes.lines().filter_map(epoch).collect();
        let slots = Vec::<Value>::from_redis_value_ref(slots).ok()?;
        let mut map = Self::default();
        for range in &slots {
            map.add(range, &epochs, asked)?;
        }
        Some(map)
    }

    /// Adds a range: `first, last, [host, port, id, …], replicas…`. A server that does not know its own name omits its
    /// host.
    fn add(&mut self, range: &Value, epochs: &BTreeMap<String, u64>, asked: &Place) -> Option<()> {
        let range = Vec::<Value>::from_redis_value_ref(range).ok()?;
        let [first, last, primary, replicas @ ..] = range.as_slice() else {
            return None;
        };
        let (place, id) = read_node(primary, asked)?;
        let epoch = id.and_then(|id| epochs.get(&id).copied());
        self.ranges.push(SlotRange {
            first: u16::from_redis_value_ref(first).ok()?,
            last: u16::from_redis_value_ref(last).ok()?,
            owner: SlotOwner {
                place,
                epoch: epoch.unwrap_or_default(),
            },
        });
        let replicas = replicas.iter().filter_map(|node| read_node(node, asked));
        self.replicas.extend(replicas.map(|(place, _)| place));
        Some(())
    }

    /// Adds the map of another server.
    pub(super) fn merge(&mut self, other: Self) {
        self.ranges.extend(other.ranges);
        self.replicas.extend(other.replicas);
    }

    /// The owner of each slot. Of several owners it is the latest one.
    pub(super) fn owners(&self) -> Vec<Option<&Place>> {
        let mut owners: Vec<Option<&SlotOwner>> = vec![None; usize::from(SLOTS)];
        for SlotRange {
            first, last, owner, ..
        } in &self.ranges
        {
            let range = usize::from(*first)..=usize::from(*last);
            for slot in owners.get_mut(range).unwrap_or_default() {
                if slot.is_none_or(|known| known.epoch < owner.epoch) {
                    *slot = Some(owner);
                }
            }
        }
        let owners = owners.into_iter();
        owners.map(|owner| Some(&owner?.place)).collect()
    }

    /// The places of all servers that were named.
    pub(super) fn places(&self) -> BTreeSet<Place> {
        let owners = self.ranges.iter().map(|range| &range.owner.place);
        owners.chain(&self.replicas).cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The id of a node, and its epoch: `id address flags primary ping pong epoch link slots…`.
fn epoch(line: &str) -> Option<(String, u64)> {
    let mut words = line.split(' ');
    let id = words.next()?.to_owned();
    let epoch = words.nth(5)?.parse().ok()?;
    Some((id, epoch))
}

/// The place of a server, and its id.
fn read_node(node: &Value, asked: &Place) -> Option<(Place, Option<String>)> {
    let node = Vec::<Value>::from_redis_value_ref(node).ok()?;
    let [host, port, rest @ ..] = node.as_slice() else {
        return None;
    };
    let host = Option::<String>::from_redis_value_ref(host).ok()?;
    let host = named(host.as_deref().unwrap_or_default(), asked);
    let place = Place::new(host, u16::from_redis_value_ref(port).ok()?);
    let id = rest
        .first()
        .and_then(|id| String::from_redis_value_ref(id).ok());
    Some((place, id))
}

/// The host that the server at `asked` names. Without a name it is the host of that server.
pub(super) fn named(host: &str, asked: &Place) -> String {
    match host {
        "" | "?" => asked.host.clone(),
        host => host.to_owned(),
    }
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

    fn map(ranges: Vec<Value>, nodes: &str) -> SlotMap {
        let map = SlotMap::read(&Value::Array(ranges), &text(nodes), &Place::new("asked", 1));
        map.expect("a map")
    }

    fn owner(map: &SlotMap, slot: usize) -> Option<String> {
        map.owners()[slot].map(Place::to_string)
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
            one.merge(map(vec![range(5, 5, "b", 1, "y")], &nodes(old, new)));
            assert_eq!(owner(&one, 5).as_deref(), Some(has));
            assert_eq!(owner(&one, 4).as_deref(), Some("a:1"));
        }
    }
}
