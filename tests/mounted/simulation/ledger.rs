//! The ledger of what is visible from outside: who is inside, who got which tokens, and what the protected resource
//! accepted. It finds the violations.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::climate::Climate;
use crate::base::id::HoldId;
use crate::base::sync::Mutex;
use crate::hold::held::Ids as _;
use crate::{FencingToken, Held, LockError, LostReason, OnLost};

/// A time that is longer than any release takes, and so longer than a lock may be in the store without a holder.
const LONG: Duration = Duration::from_secs(25);

/// The maximum number of call graphs that may continue a hold after the first one. Each has the token after the
/// previous one.
const MOST_TURNS: u64 = 16;

#[derive(Debug)]
pub(super) struct Ledger {
    climate: Climate,
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<String, Key>,
    sections: u64,
    losses: u64,
    trace: Vec<String>,
    violations: Vec<String>,
}

/// The record of one lock.
#[derive(Debug, Default)]
struct Key {
    inside: Vec<Section>,
    /// The instant at which the last one left.
    left: Option<Instant>,
    /// The tokens that each hold was given. It has several if its lease ended, or was lost, unnoticed.
    given: HashMap<HoldId, Vec<u64>>,
    /// The tokens among them whose lease is long, so that their process must end them.
    long: HashSet<HoldId>,
    /// The holds whose end the store has executed.
    released: HashSet<HoldId>,
    /// The holds that have requested to share the lock.
    readers: HashSet<HoldId>,
    /// The greatest token that was given.
    last: u64,
    entered: HashSet<u64>,
    /// The tokens with which writers have entered.
    writers: HashSet<u64>,
    /// The holds that have entered.
    holds: HashSet<HoldId>,
    /// The greatest token that has entered.
    greatest: u64,
    /// The greatest token that the resource has seen.
    written: u64,
}

#[derive(Debug)]
struct Section {
    number: u64,
    process: usize,
    held: Held,
    /// The way in which it was entered.
    reads: bool,
}

/// One outermost section. Dropping it leaves.
#[derive(Debug)]
pub(super) struct Inside {
    ledger: Arc<Ledger>,
    number: u64,
    held: Held,
    reads: bool,
    on_lost: OnLost,
}

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) since: Instant,
    /// The maximum time for which the lock may be free before it is granted here. `None` if this process sends requests
    /// at any time.
    pub(super) delay: Option<Duration>,
    /// Whether the body continues when the lock is lost.
    pub(super) on_lost: OnLost,
}

/// The result of the run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) violations: Vec<String>,
    pub(super) trace: Vec<String>,
    pub(super) sections: u64,
    pub(super) losses: u64,
    pub(super) lasted: Duration,
}

impl Ledger {
    pub(super) fn new(climate: Climate) -> Arc<Self> {
        Arc::new(Self {
            climate,
            start: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// The error without the holder that it may name, whose id is random.
    pub(super) fn note_error(&self, process: usize, error: &LockError) {
        let text = error.to_string();
        let text = text.split(" by ").next().unwrap_or_default();
        self.note(format_args!("p{process}: {text}"));
    }

    pub(super) fn note(&self, what: impl Display) {
        let at = self.start.elapsed().as_secs_f64();
        self.state.lock().trace.push(format!("{at:>9.3} {what}"));
    }

    pub(super) fn violation(&self, what: impl Display) {
        self.note(format_args!("VIOLATION {what}"));
        self.state.lock().violations.push(what.to_string());
    }

    fn unless(&self, fine: bool, what: impl FnOnce() -> String) {
        if !fine {
            self.violation(what());
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.state.lock().violations.is_empty()
    }

    /// Notes that the store has executed the end of a hold.
    pub(super) fn released(&self, key: &str, hold: HoldId) {
        let mut state = self.state.lock();
        let key = state.keys.entry(key.to_owned()).or_default();
        key.released.insert(hold);
    }

    /// Notes that the store executes a request of these holds to share the lock.
    pub(super) fn reads(&self, key: &str, holds: &[HoldId]) {
        let mut state = self.state.lock();
        let key = state.keys.entry(key.to_owned()).or_default();
        key.readers.extend(holds);
    }

    /// Notes that the store gives a token to a hold, or repeats it.
    pub(super) fn given(&self, key: &str, hold: HoldId, token: FencingToken, lease: Duration) {
        let token = token.0;
        let (known, before, over, reads) = {
            let mut state = self.state.lock();
            let key = state.keys.entry(key.to_owned()).or_default();
            let reads = key.readers.contains(&hold);
            if lease > LONG {
                key.long.insert(hold);
            }
            let given = key.given.entry(hold).or_default();
            let known = given.contains(&token);
            // The tokens that were counted in memory come before it too.
            let before = key.last.max(key.greatest);
            if !known {
                given.push(token);
                key.last = before.max(token);
            }
            (known, before, key.released.contains(&hold), reads)
        };
        // Only a loss of data may remove the tombstone.
        self.unless(!over || self.climate.data_loss, || {
            format!("{key}: a hold that has ended has it again")
        });
        // A reader gets the token of the lock that it enters.
        let grows = token > before || reads && token == before;
        self.unless(known || grows || !self.climate.keeps_order(), || {
            format!("{key}: a new token of {} before the last", before - token)
        });
    }

    /// Notes that a holder enters.
    pub(super) fn enter(self: &Arc<Self>, process: usize, held: &Held, wish: Wish) -> Inside {
        let (token, reads) = (held.fencing_token().0, held.is_shared());
        let (number, stall, belongs, fresh, grows, is_common) = {
            let mut state = self.state.lock();
            state.sections += 1;
            let number = state.sections;
            let key = state.keys.entry(held.key().to_owned()).or_default();
            let free = key.inside.is_empty().then_some(key.left).flatten();
            let stall = free.map(|left| left.max(wish.since).elapsed());
            let given = key.given.get(&held.hold_id());
            let belongs = given.is_some_and(|given| {
                given
                    .iter()
                    .any(|first| (*first..=first + MOST_TURNS).contains(&token))
            });
            // A reader has the token of other readers.
            let is_new = key.entered.insert(token);
            let fresh = match reads {
                true => !key.writers.contains(&token),
                false => is_new && key.writers.insert(token),
            };
            key.holds.insert(held.hold_id());
            let grows = token > key.greatest || reads && token == key.greatest;
            let mut valid = key.inside.iter().filter(|other| is_valid(&other.held));
            let is_common = valid.all(|other| other.held.fencing_token().0 == token);
            key.greatest = key.greatest.max(token);
            key.inside.push(Section {
                number,
                process,
                held: held.clone(),
                reads,
            });
            (number, stall, belongs, fresh, grows, is_common)
        };
        let name = held.key();
        self.note(format_args!(
            "p{process} enters {name}, section {number}, a reader: {reads}"
        ));
        self.unless(belongs, || {
            format!("{name}: a token that its hold was not given")
        });
        self.unless(fresh || !self.climate.keeps_order(), || {
            format!("{name}: the token of another section")
        });
        let keeps_order = self.climate.keeps_leases() && self.climate.keeps_order();
        self.unless(grows || !keeps_order, || {
            format!("{name}: a token smaller than one that has entered")
        });
        self.unless(is_common || !reads || !keeps_order, || {
            format!("{name}: readers have two tokens")
        });
        let delay = wish.delay.filter(|_| self.climate.is_prompt());
        if let (Some(delay), Some(stall)) = (delay, stall) {
            self.unless(stall <= delay, || {
                format!("{name}: free for {stall:?} with a waiter")
            });
        }
        let inside = Inside {
            ledger: Arc::clone(self),
            number,
            held: held.clone(),
            reads,
            on_lost: wish.on_lost,
        };
        inside.step();
        inside
    }

    /// Notes that a process was killed: its sections have ended.
    pub(super) fn killed(&self, process: usize) {
        let mut state = self.state.lock();
        for key in state.keys.values_mut() {
            key.inside.retain(|section| section.process != process);
        }
    }

    pub(super) fn lost(&self, process: usize, key: &str, reason: LostReason) {
        self.note(format_args!("p{process} has lost {key}: {reason:?}"));
        self.state.lock().losses += 1;
        let fine = match reason {
            LostReason::Deleted => !self.climate.keeps_holds(),
            LostReason::Expired => !self.climate.answers(),
            LostReason::MaxHold => true,
            // An error names the lock that was lost first, and the reason.
            LostReason::Sibling | LostReason::Closed => false,
        };
        self.unless(fine, || format!("{key}: {reason:?} without a cause"));
    }

    /// Searches for locks that were given to a hold which never noticed: it has neither entered nor released. The holds
    /// of killed processes are exempt.
    pub(super) fn look_for_orphans(&self) {
        let mut orphans = Vec::new();
        for (name, key) in &self.state.lock().keys {
            let unknown =
                |hold: &&HoldId| !key.holds.contains(hold) && !key.released.contains(hold);
            orphans.extend(key.long.iter().filter(unknown).map(|_| name.clone()));
        }
        self.unless(orphans.is_empty() || self.climate.kills, || {
            format!("given to a hold that never entered: {orphans:?}")
        });
    }

    pub(super) fn report(&self) -> Report {
        let state = std::mem::take(&mut *self.state.lock());
        Report {
            violations: state.violations,
            trace: state.trace,
            sections: state.sections,
            losses: state.losses,
            lasted: self.start.elapsed(),
        }
    }
}

fn is_valid(held: &Held) -> bool {
    held.remaining() > Duration::ZERO
}

impl Inside {
    /// Returns whether its lease is still valid.
    pub(super) fn is_valid(&self) -> bool {
        is_valid(&self.held)
    }

    /// Checks its surroundings, and writes to the resource, or reads from it.
    pub(super) fn step(&self) {
        let ledger = &self.ledger;
        let name = self.held.key();
        let token = self.held.fencing_token().0;
        let valid = self.is_valid();
        ledger.unless(valid || self.on_lost == OnLost::KeepRunning, || {
            format!("{name}: section {} runs on after its lease", self.number)
        });
        let (others, accepted, newest) = {
            let mut state = ledger.state.lock();
            let Some(key) = state.keys.get_mut(name) else {
                return;
            };
            let others = key.inside.iter().filter(|section| {
                let excludes = !(self.reads && section.reads);
                section.number != self.number && excludes && is_valid(&section.held)
            });
            let others: Vec<_> = others.map(|section| section.number).collect();
            let accepted = token >= key.written;
            if !self.reads {
                key.written = key.written.max(token);
            }
            (others, accepted, token == key.last)
        };
        if valid && ledger.climate.keeps_leases() {
            ledger.unless(others.is_empty(), || {
                format!("{name}: sections {} and {others:?} overlap", self.number)
            });
            // If the clock is set back, the new holder is rejected until the clock has caught up.
            ledger.unless(accepted || !ledger.climate.keeps_order(), || {
                format!(
                    "{name}: the resource refuses its holder, section {}",
                    self.number
                )
            });
        }
        ledger.unless(accepted || !newest || !ledger.climate.keeps_order(), || {
            format!("{name}: the resource refuses the newest token")
        });
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let name = self.held.key();
        let number = self.number;
        {
            let mut state = self.ledger.state.lock();
            if let Some(key) = state.keys.get_mut(name) {
                key.inside.retain(|section| section.number != number);
                key.left = Some(Instant::now());
            }
        }
        self.ledger
            .note(format_args!("section {number} of {name} ends"));
    }
}
