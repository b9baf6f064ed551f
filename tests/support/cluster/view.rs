//! The cluster in the view of one of its nodes (`CLUSTER NODES`).

use super::super::server::RedisServer;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The view that one node has of all nodes.
#[derive(Debug)]
pub(super) struct View(Vec<Member>);

/// The view of one node.
#[derive(Debug)]
struct Member {
    id: String,
    flags: Vec<String>,
    primary: Option<String>,
    is_connected: bool,
    slots: Vec<RangeInclusive<u16>>,
}

/// The primary of each node, and its slots.
pub(super) type Table<'a> = BTreeMap<&'a str, (Option<&'a str>, &'a [RangeInclusive<u16>])>;

impl View {
    /// Asks the node, if it responds.
    pub(super) async fn of(node: &RedisServer) -> Option<View> {
        let text = node.try_ask("CLUSTER NODES").await.ok()?;
        text.lines()
            .map(Member::parse)
            .collect::<Option<_>>()
            .map(View)
    }

    /// The id of the node that has the slot.
    pub(super) fn owner_of(&self, slot: u16) -> Option<&str> {
        let has = |member: &&Member| member.slots.iter().any(|range| range.contains(&slot));
        self.0.iter().find(has).map(|member| &*member.id)
    }

    /// The id of a replica of the node that does not fail.
    pub(super) fn replica_of(&self, primary: &str) -> Option<&str> {
        let is_its = |member: &&Member| member.primary.as_deref() == Some(primary);
        let mut replicas = self.0.iter().filter(is_its);
        let replica = replicas.find(|member| member.is_well());
        replica.map(|member| &*member.id)
    }

    /// The ids of all replicas.
    pub(super) fn replicas(&self) -> impl Iterator<Item = &str> {
        let replicas = self.0.iter().filter(|member| member.primary.is_some());
        replicas.map(|member| &*member.id)
    }

    /// Returns whether the node is a primary that has slots.
    pub(super) fn is_primary(&self, id: &str) -> bool {
        let is_primary = |member: &Member| {
            member.id == id && member.primary.is_none() && !member.slots.is_empty()
        };
        self.0.iter().any(is_primary)
    }

    /// Returns whether there is this number of nodes and of primaries, and all are healthy.
    pub(super) fn is_whole(&self, nodes: usize, primaries: usize) -> bool {
        self.0.len() == nodes
            && self.replicas().count() == nodes - primaries
            && self.0.iter().all(Member::is_well)
    }

    /// The owner of each slot.
    pub(super) fn table(&self) -> Table<'_> {
        let members = self.0.iter();
        let entries =
            members.map(|member| (&*member.id, (member.primary.as_deref(), &*member.slots)));
        entries.collect()
    }
}

impl Member {
    /// `<id> <ip:port@bus> <flags> <primary> <ping> <pong> <epoch> <link> <slots>…`
    fn parse(line: &str) -> Option<Member> {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        let flags = words.nth(1)?.split(',').map(str::to_owned).collect();
        let primary = words.next().filter(|&id| id != "-").map(str::to_owned);
        let is_connected = words.nth(3)? == "connected";
        // A slot that migrates is listed once more, in brackets.
        let slots = words.filter(|word| !word.starts_with('['));
        Some(Member {
            id,
            flags,
            primary,
            is_connected,
            slots: slots.map(range).collect::<Option<_>>()?,
        })
    }

    /// Returns whether the node is fully known, connected, and not considered failing.
    fn is_well(&self) -> bool {
        let known = ["myself", "master", "slave"];
        let is_known = |flag: &String| known.contains(&flag.as_str());
        self.is_connected && self.flags.iter().all(is_known)
    }
}

/// `7` or `7-9`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
