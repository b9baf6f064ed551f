//! The walks on random graphs, and among all events that may happen at the same time. The
//! search is tested on the in-memory store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::walk::{
    Cycle, LOOKUPS_PER_STEP, Lookup, LookupReply, MAX_CYCLE, SecondWalk, Verdict, Walk, WalkResult,
    WalkStep,
};
use crate::base::id::HoldId;
use crate::store::{EnclosedWait, ListedWait, ListedWaits, OuterHold, StoreTime};

mod cycles;
mod model;
mod protocol;
mod random;
mod shell;
mod store;

const LIFE: Duration = Duration::from_secs(4);

/// The hold of an owner with this number.
fn hold(owner: usize, number: usize) -> HoldId {
    let text = format!("00000000-0000-4000-8000-{owner:012}:{number}");
    text.parse().expect("a hold id")
}

fn key(key: usize) -> Arc<str> {
    key.to_string().into()
}

/// A wait for a key inside holds, each with its key.
fn wait(id: HoldId, waits_for: usize, enclosing: &[(HoldId, usize)]) -> EnclosedWait {
    let enclosing = enclosing.iter();
    EnclosedWait {
        id,
        key: key(waits_for),
        enclosing: enclosing
            .map(|&(hold, held)| OuterHold {
                hold,
                key: key(held),
            })
            .collect(),
    }
}

/// The content of a store that does not change: the holds in each key, and the waits.
#[derive(Clone, Debug, Default)]
struct Graph {
    keys: Vec<Vec<HoldId>>,
    waits: Vec<EnclosedWait>,
}

/// The time at which a walk looks at it.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// On both clocks.
    now: Instant,
    at: u64,
    /// The time at which every wait was last published.
    stamp: u64,
}

impl Moment {
    /// The moment this number of seconds after the first one. The waits were published `stamp` seconds after that.
    fn after(self, seconds: u64, stamp: u64) -> Self {
        Self {
            now: self.now + Duration::from_secs(seconds),
            at: self.at + seconds * 1_000_000,
            stamp: self.stamp + stamp * 1_000_000,
        }
    }

    fn first() -> Self {
        Self {
            now: Instant::now(),
            at: 100_000_000,
            stamp: 100_000_000,
        }
    }
}

impl Graph {
    fn reply(&self, question: &Lookup, moment: Moment) -> LookupReply {
        match question {
            Lookup::Holds(key) => {
                let key = key.parse::<usize>().ok();
                let holds = key.and_then(|key| self.keys.get(key));
                LookupReply::Holds(holds.cloned().unwrap_or_default())
            }
            Lookup::Waits(hold) => {
                let waits = self.waits.iter();
                let waits = waits.filter(|wait| wait.is_enclosed_by(*hold));
                let seen = |wait: &EnclosedWait| ListedWait {
                    wait: wait.clone(),
                    stamp: StoreTime {
                        micros: moment.stamp,
                    },
                    life: LIFE,
                };
                let look = ListedWaits {
                    at: StoreTime { micros: moment.at },
                    waits: waits.map(seen).collect(),
                };
                LookupReply::Waits(look, moment.now)
            }
        }
    }

    /// The first walk of one of its waits, and the number of lookups that it takes.
    fn walk(&self, from: usize, moment: Moment) -> (Option<Cycle>, usize) {
        let mut walk = Walk::new(self.waits[from].clone());
        let mut looks = 0;
        loop {
            match walk.step() {
                WalkStep::Ask(question) => walk.receive(self.reply(&question, moment)),
                WalkStep::Done(WalkResult::Pause) => {
                    assert!(looks > 0 && looks % LOOKUPS_PER_STEP == 0, "{looks}");
                    continue;
                }
                WalkStep::Done(WalkResult::Cycle(cycle)) => return (Some(cycle), looks),
                WalkStep::Done(WalkResult::Nothing) => return (None, looks),
            }
            looks += 1;
        }
    }

    fn second_walk(&self, cycle: &Cycle, ended: Instant, moment: Moment) -> Verdict {
        let mut walk = SecondWalk::new(cycle, ended);
        loop {
            match walk.step() {
                WalkStep::Ask(question) => walk.receive(&self.reply(&question, moment)),
                WalkStep::Done(verdict) => return verdict,
            }
        }
    }
}

/// The first of two call graphs waits for what the second has, and the other way round. A part of this changes before
/// the second walk, while all records of it are still there.
#[test]
fn a_cycle_that_changed_between_the_walks_is_no_deadlock() {
    let [one, other] = [(hold(0, 1), hold(0, 2)), (hold(1, 1), hold(1, 2))];
    let graph = Graph {
        keys: vec![vec![one.0], vec![other.0]],
        waits: vec![
            wait(one.1, 1, &[(one.0, 0)]),
            wait(other.1, 0, &[(other.0, 1)]),
        ],
    };
    let first = Moment::first();
    let (cycle, _) = graph.walk(0, first);
    let cycle = cycle.expect("a cycle");
    let verdict = |keys: [Vec<HoldId>; 2]| {
        let graph = Graph {
            keys: keys.into(),
            ..graph.clone()
        };
        graph.second_walk(&cycle, first.now, first.after(9, 8))
    };
    let ([one, waits], [other, also_waits]) = (<[HoldId; 2]>::from(one), other.into());
    assert_eq!(verdict([vec![one], vec![other]]), Verdict::Deadlock);
    // A hold has ended.
    assert_eq!(verdict([vec![one], vec![]]), Verdict::Gone);
    assert_eq!(verdict([vec![], vec![other]]), Verdict::Gone);
    // A wait was let in beside it.
    assert_eq!(verdict([vec![one], vec![other, waits]]), Verdict::Gone);
    assert_eq!(verdict([vec![one, also_waits], vec![other]]), Verdict::Gone);
    // A wait was let in and left, and its caller waits for another lock under the same id.
    let mut graph = graph.clone();
    graph.waits[1].key = key(2);
    let second = graph.second_walk(&cycle, first.now, first.after(9, 8));
    assert_eq!(second, Verdict::Gone);
}
