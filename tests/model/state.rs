//! One state of the whole: the store, the processes, and what is on its way between them.

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
    /// The tombstones, as far as a request may still meet them.
    pub(crate) gone: Vec<Hold>,
    /// The number of the last depth change of each hold.
    pub(crate) seqs: Vec<(Hold, u8)>,
    /// The clock, in the order of the tokens that are made of it.
    pub(crate) clock: Token,
}

/// The fields of the hash, the token beside them, and the expiry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    /// One, or the readers inside.
    pub(crate) members: Vec<Member>,
    pub(crate) lease: u8,
    pub(crate) token: Token,
    /// Whether the token was ahead of the clock.
    pub(crate) ahead: bool,
}

/// A field, with its depth; of a reader also the lease of its own.
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
    /// How long it is kept yet; 0 is dead.
    pub(crate) life: u8,
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Alone,
    /// To share the lock, with so many holders at most.
    Shared {
        limit: Option<u8>,
    },
}

/// What only the properties look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// The greatest token that was given, and the greatest that a caller entered with.
    pub(crate) given: Token,
    pub(crate) entered: Token,
    /// Whether a smaller one came after it.
    pub(crate) disorder: bool,
    /// Whether the clock was set back, and whether a token was made of it since that need not be greater.
    pub(crate) set_back: bool,
    pub(crate) excused: bool,
    /// Whether a reader has entered past another process that was first in the line.
    pub(crate) overtaken: bool,
    /// Whether the store has let a permit in while as many as its limit names were inside.
    pub(crate) crowded: bool,
    /// Whether the lock is free because a lease ran out, and not because of a release.
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

    /// The bodies that run, and what each knows of its lock.
    pub(crate) fn tenures(&self) -> impl Iterator<Item = (Hold, Tenure)> {
        self.holds().filter_map(|(hold, stage)| match stage {
            Stage::Inside(tenure) => Some((hold, tenure)),
            _ => None,
        })
    }

    /// Those whose local deadline has not passed. Any other is dropped before it runs on.
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
