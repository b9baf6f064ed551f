//! Random changes of who waits for whom while the walks look. A victim was part of a deadlock when its first walk ended,
//! and a deadlock that lasts is found.
//!
//! All clocks show the same time, in ticks of half a heartbeat. So a record lives for four ticks, and may be late by
//! one. Each wait is published in each tick, and each publication is executed at any time after that, or never.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::super::walk::{
    Cycle, Lookup, LookupReply, SecondWalk, Verdict, Walk, WalkResult, WalkStep,
};
use crate::base::id::HoldId;
use crate::store::StoreTime;
use crate::store::{EnclosedWait, ListedWait, ListedWaits, OuterHold, lateness};

const TICK: Duration = Duration::from_secs(1);
const LIFE: Duration = Duration::from_secs(4);
const KEYS: usize = 4;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Clone, Debug, Default)]
struct World {
    ticks: u32,
    ids: usize,
    /// The holds, each with its key.
    holds: Vec<(HoldId, usize)>,
    /// The waits, each with the number of its key. The first one walks.
    waits: Vec<(EnclosedWait, usize)>,
    /// The publications that were not executed, each with the tick in which it was sent.
    sent: Vec<(EnclosedWait, u32)>,
    records: BTreeMap<HoldId, (EnclosedWait, u32)>,
}

fn name(key: usize) -> Arc<str> {
    key.to_string().into()
}

fn time(ticks: u32) -> StoreTime {
    StoreTime {
        micros: (1_000 + u64::from(ticks)) * 1_000_000,
    }
}

impl World {
    fn now(&self) -> Instant {
        *START + TICK * self.ticks
    }

    fn next_id(&mut self) -> HoldId {
        self.ids += 1;
        let text = format!("00000000-0000-4000-8000-000000000000:{}", self.ids);
        text.parse().expect("a hold id")
    }

    /// Each key has a hold, and some waits begin inside these.
    fn new(random: &mut Rng) -> Self {
        let mut world = Self::default();
        (0..KEYS).for_each(|key| world.hold(key));
        (0..random.usize(2..6)).for_each(|_| world.any_wait(random));
        world.pass();
        world
    }

    fn hold(&mut self, key: usize) {
        let id = self.next_id();
        self.holds.push((id, key));
    }

    /// A wait begins inside some of the holds.
    fn wait(&mut self, key: usize, inside: impl IntoIterator<Item = usize>) {
        let outer = inside.into_iter().map(|at| self.holds[at]);
        let enclosing = outer.map(|(hold, key)| OuterHold {
            hold,
            key: name(key),
        });
        let wait = EnclosedWait {
            enclosing: enclosing.collect(),
            id: self.next_id(),
            key: name(key),
        };
        self.waits.push((wait, key));
    }

    fn any_wait(&mut self, random: &mut Rng) {
        let holds = self.holds.len();
        let inside = (0..random.usize(1..3)).map(|_| random.usize(0..holds));
        let inside: Vec<_> = inside.collect();
        self.wait(random.usize(0..KEYS), inside);
    }

    fn let_in(&mut self, wait: usize) {
        let (wait, key) = self.waits.remove(wait);
        self.holds.push((wait.id, key));
    }

    /// A tick, in which everything is published in time.
    fn pass(&mut self) {
        self.publish();
        (0..self.sent.len()).for_each(|_| self.execute(0));
    }

    fn publish(&mut self) {
        self.ticks += 1;
        let waits = self.waits.iter();
        let sent = waits.map(|(wait, _)| (wait.clone(), self.ticks));
        self.sent.extend(sent);
    }

    fn execute(&mut self, at: usize) {
        let (wait, sent) = self.sent.remove(at);
        if TICK * (self.ticks - sent) <= lateness(LIFE) {
            self.records.insert(wait.id, (wait, self.ticks));
        }
    }

    /// One of the possible changes. The first wait is the one that walks, and stays.
    fn change(&mut self, random: &mut Rng) {
        let other = random.usize(0..self.waits.len());
        match random.u8(0..12) {
            0 => self.hold(random.usize(0..KEYS)),
            1 if !self.holds.is_empty() => self.any_wait(random),
            2 if other > 0 => self.let_in(other),
            3 if other > 0 => drop(self.waits.remove(other)),
            // A caller of several locks, which are acquired in their order, waits for the next one under the same id.
            4 if other > 0 => {
                let (wait, key) = &mut self.waits[other];
                *key += 1;
                wait.key = name(*key);
            }
            // A hold ends after the waits that it encloses, or is lost before.
            5 if !self.holds.is_empty() => {
                let at = random.usize(0..self.holds.len());
                let (hold, is_lost) = (self.holds[at].0, random.bool());
                let encloses = |(wait, _): &(EnclosedWait, _)| wait.is_enclosed_by(hold);
                if is_lost {
                    self.holds.remove(at);
                } else if !encloses(&self.waits[0]) {
                    self.holds.remove(at);
                    self.waits.retain(|wait| !encloses(wait));
                }
            }
            6 | 7 => self.publish(),
            8 if !self.sent.is_empty() => self.sent.clear(),
            _ => {
                let count = random.usize(0..=self.sent.len());
                for _ in 0..count {
                    self.execute(random.usize(0..self.sent.len()));
                }
            }
        }
    }

    fn in_key(&self, key: &str) -> Vec<HoldId> {
        let key: usize = key.parse().expect("the number of a key");
        let holds = self.holds.iter().filter(|(_, at)| *at == key);
        holds.map(|(hold, _)| *hold).collect()
    }

    fn reply(&self, lookup: &Lookup) -> LookupReply {
        match lookup {
            Lookup::Holds(key) => LookupReply::Holds(self.in_key(key)),
            Lookup::Waits(by) => {
                let records = self.records.values();
                let live = records.filter(|(wait, stamp)| {
                    TICK * (self.ticks - stamp) < LIFE && wait.is_enclosed_by(*by)
                });
                let waits = live.map(|(wait, stamp)| ListedWait {
                    wait: wait.clone(),
                    stamp: time(*stamp),
                    life: LIFE,
                });
                let at = time(self.ticks);
                let waits = waits.collect();
                LookupReply::Waits(ListedWaits { at, waits }, self.now())
            }
        }
    }

    /// Returns whether one wait cannot end before the other.
    fn blocks(&self, wait: &EnclosedWait, other: &EnclosedWait) -> bool {
        let holds = self.in_key(&wait.key);
        let is_in_progress = self.waits.iter().any(|(it, _)| it == wait);
        let encloses = |hold: &HoldId| other.is_enclosed_by(*hold);
        is_in_progress && !holds.contains(&wait.id) && holds.iter().any(encloses)
    }

    fn has(&self, cycle: &Cycle) -> bool {
        let waits = || cycle.links.iter().map(|link| &link.wait);
        let mut pairs = waits().zip(waits().cycle().skip(1));
        pairs.all(|(one, other)| self.blocks(one, other))
    }

    /// Returns whether the wait that walks cannot end before itself. Every path is tried.
    fn is_deadlocked(&self) -> bool {
        let mut reached = vec![0];
        let mut at = 0;
        while at < reached.len() {
            for (next, (other, _)) in self.waits.iter().enumerate() {
                if self.blocks(&self.waits[reached[at]].0, other) {
                    if next == 0 {
                        return true;
                    }
                    if !reached.contains(&next) {
                        reached.push(next);
                    }
                }
            }
            at += 1;
        }
        false
    }
}

/// The walks of the first wait, one lookup after the other.
#[derive(Debug)]
enum Walking {
    First(Walk),
    /// With the world at the end of the first walk.
    Second(SecondWalk, Cycle, Box<World>),
    /// There is no cycle, or no longer.
    Nothing,
    Victim,
}

impl Walking {
    fn new(world: &World) -> Self {
        Self::First(Walk::new(world.waits[0].0.clone()))
    }

    fn look(self, world: &World) -> Self {
        match self {
            Self::First(mut walk) => match walk.step() {
                WalkStep::Ask(lookup) => {
                    walk.receive(world.reply(&lookup));
                    Self::First(walk)
                }
                WalkStep::Done(WalkResult::Pause) => Self::First(walk),
                WalkStep::Done(WalkResult::Nothing) => Self::Nothing,
                WalkStep::Done(WalkResult::Cycle(cycle)) => {
                    let walk = SecondWalk::new(&cycle, world.now());
                    Self::Second(walk, cycle, Box::new(world.clone()))
                }
            },
            Self::Second(mut walk, cycle, ended) => match walk.step() {
                WalkStep::Ask(lookup) => {
                    walk.receive(&world.reply(&lookup));
                    Self::Second(walk, cycle, ended)
                }
                WalkStep::Done(Verdict::Unsure) => {
                    Self::Second(SecondWalk::new(&cycle, ended.now()), cycle, ended)
                }
                WalkStep::Done(Verdict::Gone) => Self::Nothing,
                WalkStep::Done(Verdict::Deadlock) => {
                    assert!(ended.has(&cycle), "{cycle:?} was not in {ended:?}");
                    Self::Victim
                }
            },
            Self::Nothing | Self::Victim => self,
        }
    }
}

#[test]
fn a_victim_was_in_a_deadlock_and_one_that_lasts_is_found() {
    for seed in 0..20_000 {
        let random = &mut Rng::with_seed(seed);
        let world = &mut World::new(random);
        let mut walking = Walking::new(world);
        for _ in 0..random.usize(0..60) {
            if random.u8(0..3) == 0 {
                world.change(random);
            } else if matches!(walking, Walking::Nothing) {
                walking = Walking::new(world);
            } else {
                walking = walking.look(world);
            }
        }
        // Nothing changes from now on, and what has ended is forgotten.
        (0..6).for_each(|_| world.pass());
        let mut walking = Walking::new(world);
        while let Walking::First(_) = walking {
            walking = walking.look(world);
        }
        (0..2).for_each(|_| world.pass());
        while let Walking::Second(..) = walking {
            walking = walking.look(world);
        }
        let is_victim = matches!(walking, Walking::Victim);
        assert_eq!(is_victim, world.is_deadlocked(), "seed {seed}: {walking:?}");
    }
}

/// Its record is still there.
#[test]
fn a_wait_that_was_let_in_is_in_no_deadlock() {
    let mut world = World::default();
    for key in 0..2 {
        world.hold(key);
        world.wait(1 - key, [key]);
    }
    world.pass();
    let walk = |mut walking: Walking, world: &World| {
        for _ in 0..6 {
            walking = walking.look(world);
        }
        walking
    };
    let found = walk(Walking::new(&world), &world);
    assert!(matches!(found, Walking::Second(..)), "{found:?}");
    world.let_in(1);
    for walking in [found, Walking::new(&world)] {
        let over = walk(walking, &world);
        assert!(matches!(over, Walking::Nothing), "{over:?}");
    }
}
