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
use crate::store::StoreTime;
use crate::store::records::{EnclosedWait, ListedWait, ListedWaits, OuterHold};

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
                let waits = waits.filter(|wait| wait.enclosed_by(*hold).is_some());
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
