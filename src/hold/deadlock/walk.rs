//! The search for a cycle among waits. The replies are its input, and the next lookup is its output. It has no clock, no
//! store and no tasks.
//!
//! A wait is for the fields of its key, whatever they are. A field cannot go before the waits that it encloses. So all
//! of them must be resolved, and a cycle is a deadlock. The edges are between fields. Consider two branches of one call
//! graph that each wait for what the other one holds, under fields that do not enclose the wait of the other. This is
//! not a deadlock.
//!
//! What one walk sees was seen at several moments, so a cycle in it may never have existed. The second walk follows the
//! same ids. It finds out whether the cycle existed at one instant, the end of the first walk. Each field was seen in
//! its key before and after that instant, and an id never returns. Each wait was published again after that instant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::store::{EnclosedWait, ListedWait, ListedWaits, StoreTime, lateness};

/// The maximum number of waits in a cycle. When a cycle begins, all its waits walk, so the lookups grow with the square
/// of their number.
pub(super) const MAX_CYCLE: usize = 32;

/// The number of lookups that a walk makes before it pauses. It is enough for the longest cycle.
pub(super) const LOOKUPS_PER_STEP: usize = 2 * MAX_CYCLE;

/// The maximum number of holds, and of waits, that a walk remembers.
pub(super) const MAX_REMEMBERED: usize = 16_384;

/// The next lookup of a walk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lookup {
    /// Which holds are in this key?
    Holds(Arc<str>),
    /// Which waits does this hold enclose?
    Waits(HoldId),
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub(super) enum LookupReply {
    Holds(Vec<HoldId>),
    /// The waits that the hold encloses, with the instant before the request was sent.
    Waits(ListedWaits, Instant),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WalkStep<T> {
    Ask(Lookup),
    Done(T),
}

/// The result of the first walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WalkResult {
    Cycle(Cycle),
    Nothing,
    /// No result yet. The walk has made its lookups, and continues with the next step.
    Pause,
}

/// The first walk, which is breadth-first and starts from one wait. It continues where it has paused. So it sees
/// everything that can be reached, however many readers a lock has.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    nodes: Vec<WalkNode>,
    /// The waits of the nodes.
    reached: BTreeSet<HoldId>,
    /// The holds of each key that was looked up.
    holds: BTreeMap<Arc<str>, Arc<[HoldId]>>,
    /// The holds whose waits were looked up, or will be.
    known: BTreeSet<HoldId>,
    pending: VecDeque<PendingLookup>,
    /// The number of lookups that are left before it pauses.
    lookups_left: usize,
    closes: Option<(usize, HoldId)>,
}

/// A wait that was reached.
#[derive(Clone, Debug)]
struct WalkNode {
    link: Link,
    parent: usize,
    depth: usize,
}

#[derive(Clone, Debug)]
enum PendingLookup {
    /// The holds in the key of this node are looked up.
    Holds(usize),
    /// The waits that this hold encloses are looked up. The hold is in the key of the node.
    Waits(usize, HoldId),
}

/// One wait of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) wait: EnclosedWait,
    /// The way in which it was reached; `None` for the wait that walks.
    reached: Option<Reached>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reached {
    /// The hold that encloses it, and is in the key of the link before.
    by: HoldId,
    at: StoreTime,
    asked: Instant,
    life: Duration,
}

/// A cycle of waits that wait for each other, as far as one walk can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// The first is the wait that walks.
    pub(super) links: Vec<Link>,
    /// The hold that encloses the first wait, and is in the key of the last.
    pub(super) closes: HoldId,
}

impl Walk {
    pub(super) fn new(wait: EnclosedWait) -> Self {
        let reached = BTreeSet::from([wait.id]);
        let link = Link {
            wait,
            reached: None,
        };
        Self {
            nodes: vec![WalkNode {
                link,
                parent: 0,
                depth: 1,
            }],
            reached,
            holds: BTreeMap::new(),
            known: BTreeSet::new(),
            pending: VecDeque::from([PendingLookup::Holds(0)]),
            lookups_left: LOOKUPS_PER_STEP,
            closes: None,
        }
    }

    /// Returns the next lookup, or the result of the walk.
    pub(super) fn step(&mut self) -> WalkStep<WalkResult> {
        while self.closes.is_none()
            && let Some(pending) = self.pending.front()
        {
            let question = match *pending {
                PendingLookup::Holds(node) => {
                    let key = Arc::clone(&self.nodes[node].link.wait.key);
                    // Several waits may be for one key, which is looked up once.
                    if let Some(holds) = self.holds.get(&key) {
                        let holds = Arc::clone(holds);
                        self.pending.pop_front();
                        self.expand(node, &holds);
                        continue;
                    }
                    Lookup::Holds(key)
                }
                PendingLookup::Waits(_, hold) => Lookup::Waits(hold),
            };
            // Before the lookup, so that nothing is lost when the walk continues.
            if self.lookups_left == 0 {
                self.lookups_left = LOOKUPS_PER_STEP;
                return WalkStep::Done(WalkResult::Pause);
            }
            return WalkStep::Ask(question);
        }
        let cycle = self.closes.map(|(node, closes)| self.cycle(node, closes));
        WalkStep::Done(cycle.map_or(WalkResult::Nothing, WalkResult::Cycle))
    }

    /// Processes the answer to the last lookup.
    pub(super) fn receive(&mut self, reply: LookupReply) {
        self.lookups_left = self.lookups_left.saturating_sub(1);
        match (self.pending.front(), reply) {
            (Some(&PendingLookup::Holds(node)), LookupReply::Holds(holds)) => {
                let key = Arc::clone(&self.nodes[node].link.wait.key);
                // The lookup stays pending. The next step finds these holds, and continues with them.
                self.holds.insert(key, holds.into());
            }
            (Some(&PendingLookup::Waits(parent, by)), LookupReply::Waits(listed, asked)) => {
                self.pending.pop_front();
                let at = listed.at;
                for ListedWait { wait, life, .. } in listed.waits {
                    let reached = Reached {
                        by,
                        at,
                        asked,
                        life,
                    };
                    self.reach(parent, wait, reached);
                }
            }
            // This is an answer to another lookup.
            (_, LookupReply::Holds(_) | LookupReply::Waits(..)) => {}
        }
    }

    fn reach(&mut self, parent: usize, wait: EnclosedWait, reached: Reached) {
        let depth = self.nodes[parent].depth + 1;
        // Beyond the bounds, or reached before: a cycle without the wait that walks would be followed for ever.
        let is_beyond = depth > MAX_CYCLE || self.nodes.len() == MAX_REMEMBERED;
        if is_beyond || !self.reached.insert(wait.id) {
            return;
        }
        let (node, reached) = (self.nodes.len(), Some(reached));
        self.pending.push_back(PendingLookup::Holds(node));
        self.nodes.push(WalkNode {
            link: Link { wait, reached },
            parent,
            depth,
        });
    }

    fn expand(&mut self, node: usize, holds: &[HoldId]) {
        if holds.contains(&self.nodes[node].link.wait.id) {
            // The wait has been let in, and will learn that.
            return;
        }
        let walker = &self.nodes[0].link.wait;
        let mut enclosing = holds.iter();
        // A hold of this key encloses the wait that walks, which therefore waits for itself.
        if let Some(&closes) = enclosing.find(|hold| walker.is_enclosed_by(**hold)) {
            self.closes = Some((node, closes));
            return;
        }
        // Each hold is looked up once, on the way on which it was reached first.
        for &hold in holds {
            if self.known.len() < MAX_REMEMBERED && self.known.insert(hold) {
                self.pending.push_back(PendingLookup::Waits(node, hold));
            }
        }
    }

    fn cycle(&self, last: usize, closes: HoldId) -> Cycle {
        let parent = |at: &usize| (*at > 0).then(|| self.nodes[*at].parent);
        let path = std::iter::successors(Some(last), parent);
        let mut links: Vec<_> = path.map(|at| self.nodes[at].link.clone()).collect();
        // The parents lead from the last wait to the one that walks, which is the first.
        links.reverse();
        Cycle { links, closes }
    }
}

impl Cycle {
    /// The hold that the wait at this place of the cycle waits for.
    fn next(&self, at: usize) -> HoldId {
        let next = self.links.get(at + 1);
        let reached = next.and_then(|link| link.reached.as_ref());
        reached.map_or(self.closes, |reached| reached.by)
    }

    pub(super) fn waits(&self) -> impl Iterator<Item = HoldId> {
        self.links.iter().map(|link| link.wait.id)
    }

    /// The greatest heartbeat of its waits, if `heartbeat` is that of the first.
    pub(super) fn longest_heartbeat(&self, heartbeat: Duration) -> Duration {
        let others = self.links.iter().filter_map(|link| link.reached.as_ref());
        let heartbeats = others.map(|reached| reached.life / 2);
        heartbeats.fold(heartbeat, Duration::max)
    }

    /// The waits of the cycle, each with the key of the hold that is in the cycle and encloses it.
    pub(super) fn blocked(&self) -> impl Iterator<Item = (&EnclosedWait, &str)> {
        // The wait before it waits for that hold, which may also have other keys.
        let before = self.links.last().into_iter().chain(&self.links);
        let links = self.links.iter().zip(before);
        links.map(|(link, before)| (&link.wait, &*before.wait.key))
    }
}

/// The result of the second walk. The greatest one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The cycle existed when the first walk ended.
    Deadlock,
    /// Some wait has not been published since then, but may still be published.
    Unsure,
    /// A part of the cycle has gone.
    Gone,
}

/// The second walk, which follows the same ids.
#[derive(Clone, Debug)]
pub(super) struct SecondWalk {
    cycle: Cycle,
    /// The end of the first walk.
    ended: Instant,
    /// The index of the next lookup. There are twice as many lookups as links.
    at: usize,
    verdict: Verdict,
}

impl SecondWalk {
    pub(super) fn new(cycle: &Cycle, ended: Instant) -> Self {
        Self {
            cycle: cycle.clone(),
            ended,
            at: 0,
            verdict: Verdict::Deadlock,
        }
    }

    /// Returns the next lookup, or the result of the walk.
    pub(super) fn step(&mut self) -> WalkStep<Verdict> {
        while self.verdict != Verdict::Gone
            && let Some(link) = self.cycle.links.get(self.at / 2)
        {
            // Each link has two lookups: first that of its key, then that of the hold by which it was reached.
            if self.at.is_multiple_of(2) {
                return WalkStep::Ask(Lookup::Holds(Arc::clone(&link.wait.key)));
            }
            if let Some(reached) = &link.reached {
                return WalkStep::Ask(Lookup::Waits(reached.by));
            }
            // The wait that walks knows by itself that it still waits.
            self.at += 1;
        }
        WalkStep::Done(self.verdict)
    }

    /// Processes the answer to the last lookup.
    pub(super) fn receive(&mut self, reply: &LookupReply) {
        let link = self.cycle.links.get(self.at / 2);
        let (Some(link), next) = (link, self.cycle.next(self.at / 2)) else {
            return;
        };
        let verdict = match (reply, &link.reached) {
            (LookupReply::Holds(holds), _) => {
                // The hold that it waits for is still in the key, and the wait was not let in.
                match holds.contains(&next) && !holds.contains(&link.wait.id) {
                    true => Verdict::Deadlock,
                    false => Verdict::Gone,
                }
            }
            (LookupReply::Waits(seen_waits, _), Some(reached)) => {
                reached.recheck(&link.wait, seen_waits, self.ended)
            }
            // There is no such lookup for the wait that walks.
            (LookupReply::Waits(..), None) => Verdict::Deadlock,
        };
        self.at += 1;
        self.verdict = self.verdict.max(verdict);
    }
}

impl Reached {
    /// Returns whether the wait was in progress when the first walk ended, on the clock of the server that has its
    /// record.
    ///
    /// What was recorded at a time `t` was true after `t` less the time by which a record may be late.
    fn recheck(&self, wait: &EnclosedWait, seen_waits: &ListedWaits, ended: Instant) -> Verdict {
        // A caller of several locks waits for one after the other under one id.
        let is_same = |seen: &&ListedWait| seen.wait.id == wait.id && seen.wait.key == wait.key;
        let Some(seen) = seen_waits.waits.iter().find(is_same) else {
            return Verdict::Gone;
        };
        // Each span is on one clock: this process measures from the lookup to the end of the first walk, and the server
        // from the lookup to the publication.
        let since = ended.saturating_duration_since(self.asked);
        let late = lateness(self.life.max(seen.life));
        let meant_after = seen.stamp.since(self.at);
        if meant_after.is_some_and(|passed| passed > since + late) {
            Verdict::Deadlock
        } else {
            Verdict::Unsure
        }
    }
}
