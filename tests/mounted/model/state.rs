//! One state of the whole system: the store, the processes, and what is in flight between them.

use super::config::{Chances, Config};
use super::hold::{Hold, Holds, Token};
use super::machine;
use super::message::{Message, Request};
use super::process::{Process, Stage, Tenure};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) processes: Vec<Process>,
    pub(crate) requests: Vec<Request>,
    pub(crate) messages: Vec<Message>,
    pub(crate) chances: Chances,
    pub(crate) ledger: Ledger,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) lock: Option<Lock>,
    /// The processes that wait, in their order.
    pub(crate) queue: Vec<Place>,
    /// The tombstones that a request may still meet.
    pub(crate) gone: Vec<Hold>,
    /// The number of the last depth change of each hold.
    pub(crate) seqs: Vec<(Hold, u8)>,
    /// The clock, as an index in the order of the tokens that come from it.
    pub(crate) clock: Token,
}

/// The fields of the hash, with the token and the expiry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    /// One holder, or the readers inside.
    pub(crate) members: Vec<Member>,
    pub(crate) lease: u8,
    pub(crate) token: Token,
    /// Whether the token was ahead of the clock.
    pub(crate) ahead: bool,
}

/// A field, with its depth. For a reader it also has the reader's own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) hold: Hold,
    pub(crate) depth: u8,
    pub(crate) own: Option<u8>,
}

impl Lock {
    pub(crate) fn member(&self, hold: Hold) -> Option<&Member> {
        self.members.iter().find(|member| member.hold == hold)
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.members.iter().any(|member| member.own.is_some())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) holds: Holds,
    pub(crate) want: Want,
    /// The remaining time for which it is kept. At 0 the process is dead.
    pub(crate) life: u8,
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Alone,
    /// A share of the lock, with at most this number of holders.
    Shared {
        limit: Option<u8>,
    },
}

/// The history that only the properties read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// The greatest token that was given, and the greatest with which a caller has entered.
    pub(crate) given: Token,
    pub(crate) entered: Token,
    /// Whether a smaller one was given after it.
    pub(crate) disorder: bool,
    /// Whether the clock was set back, and whether a token came from it since then that need not be greater.
    pub(crate) set_back: bool,
    pub(crate) excused: bool,
    /// Whether the lock has passed on in memory since the store gave it last.
    pub(crate) turned: bool,
    /// Whether a reader has entered past another process that was first in the line.
    pub(crate) overtaken: bool,
    /// Whether the store has let a permit in while as many holders as its limit were inside.
    pub(crate) crowded: bool,
    /// Whether the lock is free because a lease expired, and not because of a release.
    pub(crate) lapsed: bool,
}

impl State {
    pub(crate) fn new(config: &Config) -> Self {
        let process = |cast: &&str| Process {
            alive: true,
            queue: machine::new(config),
            stages: vec![Stage::default(); cast.len()],
        };
        Self {
            store: Store::default(),
            processes: config.casts().iter().map(process).collect(),
            requests: Vec::new(),
            messages: Vec::new(),
            chances: config.chances,
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn process(&self, hold: Hold) -> &Process {
        &self.processes[usize::from(hold.process)]
    }

    pub(crate) fn process_mut(&mut self, process: u8) -> &mut Process {
        &mut self.processes[usize::from(process)]
    }

    pub(crate) fn stage(&self, hold: Hold) -> Stage {
        self.process(hold).stages[usize::from(hold.waiter)]
    }

    pub(crate) fn stage_mut(&mut self, hold: Hold) -> &mut Stage {
        &mut self.process_mut(hold.process).stages[usize::from(hold.waiter)]
    }

    pub(crate) fn tenure(&mut self, hold: Hold) -> Option<&mut Tenure> {
        match self.stage_mut(hold) {
            Stage::Inside(tenure) => Some(tenure),
            _ => None,
        }
    }

    /// The hold that was granted to this caller, and that the caller has not entered.
    pub(crate) fn granted_to(&self, waiter: Hold) -> Option<Hold> {
        let is_its = |stage| matches!(stage, Stage::Granted(won) if won.waiter == waiter);
        let mut holds = self.holds();
        holds.find_map(|(hold, stage)| is_its(stage).then_some(hold))
    }

    /// The bodies that run, and the knowledge of each about its lock.
    pub(crate) fn tenures(&self) -> impl Iterator<Item = (Hold, Tenure)> {
        self.holds().filter_map(|(hold, stage)| match stage {
            Stage::Inside(tenure) => Some((hold, tenure)),
            _ => None,
        })
    }

    /// The bodies whose local deadline has not passed. Any other is dropped before it continues.
    pub(crate) fn valid(&self) -> impl Iterator<Item = (Hold, Tenure)> {
        self.tenures().filter(|(_, tenure)| tenure.won.left > 0)
    }

    pub(crate) fn holds(&self) -> impl Iterator<Item = (Hold, Stage)> {
        (0..).zip(&self.processes).flat_map(|(process, whole)| {
            let named = move |waiter| Hold { process, waiter };
            (0..).map(named).zip(whole.stages.iter().copied())
        })
    }
}
