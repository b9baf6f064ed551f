//! The events that may happen during walks. This is a small model of branches that take locks, of their records, and of
//! a walk, which uses the code of the crate. Every step is atomic, as a script is.
//!
//! All clocks show the same time, in ticks of half a heartbeat. So a record lives for four ticks, and may be late by
//! one. A publication is executed at any time after it was sent, or never. It is never removed. A branch may be dropped
//! at any moment, and its locks are released one after the other, at any time after that. The branch that walks has
//! already published its wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::*;

/// The number of ticks in a run.
const TICKS: u64 = 4;

/// The number of publications of one wait.
const PUBLICATIONS: u8 = 2;

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    SecondWalk,
    Stamps,
    Lateness,
    EdgesOfFields,
}

/// A branch that takes these keys, one inside the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) owner: usize,
    /// The key that its owner holds around it, permanently.
    pub(super) inside: Option<usize>,
    pub(super) keys: &'static [usize],
    pub(super) may_be_dropped: bool,
    pub(super) walks: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Branch {
    /// The holds that enclose its next step, beginning with the outermost.
    holds: Vec<(HoldId, usize)>,
    taken: usize,
    waits: Option<EnclosedWait>,
    published: u8,
    has_ended: bool,
    walk: Walking,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Walking {
    NotYet,
    First(Walk),
    Between(Cycle, Instant),
    Second(Cycle, Instant, SecondWalk),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u64,
    /// The hold in each key.
    keys: Vec<Option<HoldId>>,
    branches: Vec<Branch>,
    records: BTreeMap<HoldId, (EnclosedWait, u64)>,
    sent: Vec<(EnclosedWait, u64)>,
    /// All cycles that existed at some instant, by their waits.
    cycles: BTreeSet<Vec<HoldId>>,
    /// The cycle in which one wait was made the victim.
    pub(super) victim: Option<Vec<HoldId>>,
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn instant(ticks: u64) -> Instant {
    *START + Duration::from_secs(ticks)
}

fn time(ticks: u64) -> StoreTime {
    let micros = (1_000 + ticks) * 1_000_000;
    StoreTime { micros }
}

fn waits(cycle: &Cycle) -> Vec<HoldId> {
    let mut waits: Vec<_> = cycle.waits().collect();
    waits.sort_unstable();
    waits
}

impl State {
    pub(super) fn new(plans: &[Plan]) -> Self {
        let mut keys = vec![None; 3];
        let branch = |plan: &Plan| {
            let holds = plan.inside.map(|key| {
                let outer = hold(plan.owner, 1);
                keys[key] = Some(outer);
                (outer, key)
            });
            Branch {
                holds: holds.into_iter().collect(),
                taken: 0,
                waits: None,
                published: 0,
                has_ended: false,
                walk: Walking::NotYet,
            }
        };
        let branches = plans.iter().map(branch).collect();
        Self {
            now: 0,
            keys,
            branches,
            records: BTreeMap::new(),
            sent: Vec::new(),
            cycles: BTreeSet::new(),
            victim: None,
        }
    }

    /// Returns whether there was a victim for a cycle that never existed.
    pub(super) fn is_wrong(&self) -> bool {
        self.victim
            .as_ref()
            .is_some_and(|cycle| !self.cycles.contains(cycle))
    }

    /// All states to which one step leads.
    pub(super) fn next(&self, plans: &[Plan], broken: Option<Broken>) -> Vec<Self> {
        let mut next = Vec::new();
        if self.now < TICKS {
            next.push(Self {
                now: self.now + 1,
                ..self.clone()
            });
        }
        for at in 0..self.sent.len() {
            let mut state = self.clone();
            let (wait, sent) = state.sent.remove(at);
            if state.now - sent <= 1 || broken == Some(Broken::Lateness) {
                state.records.insert(wait.id, (wait, state.now));
            }
            next.push(state);
        }
        for (at, plan) in plans.iter().enumerate() {
            let steps = [Self::take, Self::leave, Self::publish];
            next.extend(steps.iter().filter_map(|step| {
                let mut state = self.clone();
                step(&mut state, at, plan).then_some(state)
            }));
            if plan.walks {
                let mut state = self.clone();
                next.extend(state.walk(at, plan, broken).then_some(state));
            }
        }
        next.iter_mut().for_each(Self::note_cycles);
        next
    }

    /// Takes the next key, waits for it, or leaves all keys.
    fn take(&mut self, at: usize, plan: &Plan) -> bool {
        let Self { keys, branches, .. } = self;
        let branch = &mut branches[at];
        let Some(&wanted) = plan.keys.get(branch.taken).filter(|_| !branch.has_ended) else {
            return self.end(at, plan);
        };
        // Each has ids of its own.
        let id = hold(plan.owner, 10 * (at + 1) + branch.taken);
        if keys[wanted].is_none() {
            keys[wanted] = Some(id);
            branch.holds.push((id, wanted));
            branch.taken += 1;
            branch.waits = None;
            branch.walk = Walking::Over;
            return true;
        }
        if branch.waits.is_some() {
            return false;
        }
        branch.waits = Some(wait(id, wanted, &branch.holds));
        (branch.published, branch.walk) = (0, Walking::NotYet);
        true
    }

    /// Drops the branch.
    fn leave(&mut self, at: usize, plan: &Plan) -> bool {
        let branch = &mut self.branches[at];
        if !plan.may_be_dropped || branch.has_ended {
            return false;
        }
        (branch.waits, branch.walk, branch.has_ended) = (None, Walking::Over, true);
        true
    }

    /// Releases one of its keys.
    fn end(&mut self, at: usize, plan: &Plan) -> bool {
        let branch = &mut self.branches[at];
        let kept = usize::from(plan.inside.is_some());
        if branch.holds.len() == kept {
            return false;
        }
        let released = branch.holds.pop();
        released.iter().for_each(|&(_, key)| self.keys[key] = None);
        branch.has_ended = true;
        true
    }

    fn publish(&mut self, at: usize, plan: &Plan) -> bool {
        let branch = &mut self.branches[at];
        let Some(wait) = branch.waits.clone().filter(|_| !plan.walks) else {
            return false;
        };
        let is_under_way = self.sent.iter().any(|(sent, _)| *sent == wait);
        if wait.enclosing.is_empty() || is_under_way || branch.published == PUBLICATIONS {
            return false;
        }
        branch.published += 1;
        self.sent.push((wait, self.now));
        true
    }

    /// Makes one lookup of a walk, or begins the next walk.
    fn walk(&mut self, at: usize, plan: &Plan, broken: Option<Broken>) -> bool {
        let branch = &self.branches[at];
        let Some(wait) = branch.waits.clone() else {
            return false;
        };
        let walk = match branch.walk.clone() {
            Walking::NotYet => Walking::First(Walk::new(self.merged(wait, plan.owner, broken))),
            Walking::First(mut walk) => match walk.step() {
                WalkStep::Ask(question) => {
                    walk.receive(self.reply(&question, broken));
                    Walking::First(walk)
                }
                WalkStep::Done(WalkResult::Pause) => Walking::First(walk),
                WalkStep::Done(WalkResult::Nothing) => Walking::Over,
                WalkStep::Done(WalkResult::Cycle(cycle)) if broken == Some(Broken::SecondWalk) => {
                    self.victim = Some(waits(&cycle));
                    Walking::Over
                }
                WalkStep::Done(WalkResult::Cycle(cycle)) => {
                    Walking::Between(cycle, instant(self.now))
                }
            },
            Walking::Between(cycle, ended) => {
                let walk = SecondWalk::new(&cycle, ended);
                Walking::Second(cycle, ended, walk)
            }
            Walking::Second(cycle, ended, mut walk) => match walk.step() {
                WalkStep::Ask(question) => {
                    walk.receive(&self.reply(&question, broken));
                    Walking::Second(cycle, ended, walk)
                }
                WalkStep::Done(Verdict::Unsure) if broken != Some(Broken::Stamps) => {
                    Walking::Between(cycle, ended)
                }
                WalkStep::Done(Verdict::Gone) => Walking::Over,
                WalkStep::Done(Verdict::Deadlock | Verdict::Unsure) => {
                    self.victim = Some(waits(&cycle));
                    Walking::Over
                }
            },
            Walking::Over => return false,
        };
        self.branches[at].walk = walk;
        true
    }

    fn reply(&self, question: &Lookup, broken: Option<Broken>) -> LookupReply {
        match question {
            Lookup::Holds(key) => {
                let held = key.parse::<usize>().ok().and_then(|key| self.keys[key]);
                LookupReply::Holds(held.into_iter().collect())
            }
            Lookup::Waits(by) => {
                let records = self.records.values();
                let live = records.filter(|(_, stamp)| self.now < stamp + 4);
                let seen = live.map(|(wait, stamp)| ListedWait {
                    wait: self.merged(wait.clone(), wait.id.owner_number(), broken),
                    stamp: time(*stamp),
                    life: LIFE,
                });
                let seen = seen.filter(|seen| seen.wait.is_enclosed_by(*by));
                let look = ListedWaits {
                    at: time(self.now),
                    waits: seen.collect(),
                };
                LookupReply::Waits(look, instant(self.now))
            }
        }
    }

    /// If the edges are between owners, every hold of an owner encloses each of its waits.
    fn merged(&self, mut wait: EnclosedWait, owner: usize, broken: Option<Broken>) -> EnclosedWait {
        if broken == Some(Broken::EdgesOfFields) {
            let held = self.keys.iter().enumerate();
            let held = held.filter_map(|(at, hold)| hold.map(|hold| (at, hold)));
            let of_owner = held.filter(|(_, hold)| hold.owner_number() == owner);
            wait.enclosing = of_owner
                .map(|(at, hold)| OuterHold { hold, key: key(at) })
                .collect();
        }
        wait
    }

    /// Notes the cycles that exist now.
    fn note_cycles(&mut self) {
        let waits: Vec<_> = self
            .branches
            .iter()
            .filter_map(|branch| branch.waits.as_ref())
            .collect();
        let blocks = |one: &EnclosedWait, other: &EnclosedWait| {
            let key = one.key.parse::<usize>().ok();
            let holder = key.and_then(|key| self.keys[key]);
            holder.is_some_and(|holder| other.is_enclosed_by(holder))
        };
        let mut cycles = Vec::new();
        for one in &waits {
            for other in &waits {
                if one.id < other.id && blocks(one, other) && blocks(other, one) {
                    cycles.push(vec![one.id, other.id]);
                }
            }
        }
        self.cycles.extend(cycles);
    }
}

impl HoldId {
    /// The number of an owner of the model.
    fn owner_number(self) -> usize {
        let number = self.owner().as_uuid().as_u128() & 0xfff;
        usize::try_from(number).unwrap_or_default()
    }
}
