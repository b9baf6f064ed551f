//! The history of a run, compiled from all ledgers and the list of faults.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::clock::nanos;
use crate::crew::{End, Remains};
use crate::fault::Fault;
use crate::ledger::{self, Life, Outcome, Reason, Record, What};
use crate::sightings::Sighting;
use crate::topology::Topology;

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) topology: Topology,
    pub(crate) start: u64,
    /// The instant at which the last fault had been undone.
    pub(crate) healed: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) ops: Vec<Op>,
    /// The holders of the locks, in order.
    pub(crate) sightings: Vec<Sighting>,
    pub(crate) workers: Vec<(String, End)>,
    /// The workers that have had each key in the last phase, with the times.
    pub(crate) calm: Vec<(String, String, u64)>,
    /// Whether all replicas had each lock before its section began, so that no failover takes it.
    pub(crate) confirm: bool,
    /// The keys of locks and queues that remained in the store.
    pub(crate) leftovers: Vec<String>,
}

/// One attempt at a lock, and the section that followed.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) worker: String,
    pub(crate) number: u64,
    pub(crate) key: String,
    pub(crate) wants: u64,
    pub(crate) patience: u64,
    /// Whether the same request acquires other keys too.
    pub(crate) together: bool,
    pub(crate) hold: Option<Hold>,
    pub(crate) reentries: u64,
    /// The depths in the store that were not those of the body: instant, wanted, stored.
    pub(crate) wrong_depths: Vec<(u64, u64, u64)>,
    /// `None` if the worker was killed before.
    pub(crate) ended: Option<(u64, Outcome)>,
}

/// A section in the view of its worker.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    pub(crate) id: String,
    pub(crate) ttl: u64,
    pub(crate) entered: u64,
    /// The last time at which the lease was seen to be valid, if it ever was.
    pub(crate) valid: Option<u64>,
    /// The end of the last lease that was seen. In the server it ends no earlier.
    pub(crate) lease: u64,
    /// The time until which the worker had to consider itself alone, or among readers.
    pub(crate) until: u64,
    pub(crate) shares: bool,
    pub(crate) left: Option<(u64, bool)>,
    pub(crate) lost: Option<(u64, Reason)>,
}

impl History {
    /// A history with the records of the workers.
    pub(crate) fn with(mut self, remains: &[Remains]) -> Result<History> {
        for worker in remains {
            let killed = matches!(worker.end, End::Killed | End::Hung);
            // A worker that was killed immediately may not have begun a ledger.
            if !killed || worker.ledger.exists() {
                self.read(&worker.name, ledger::read(&worker.ledger, killed)?);
            }
            self.workers.push((worker.name.clone(), worker.end));
        }
        self.ops.sort_by_key(|op| op.wants);
        Ok(self)
    }

    /// Adds the ledger of one worker.
    pub(crate) fn read(&mut self, worker: &str, records: Vec<Record>) {
        let mut ops: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
        for record in records {
            match &record.what {
                What::Calm { key } => {
                    let calm = (worker.to_owned(), key.clone(), record.at);
                    self.calm.push(calm);
                }
                _ => ops.entry(record.op).or_default().push(record),
            }
        }
        let ops = ops
            .into_values()
            .filter_map(|records| Op::new(worker, &records));
        self.ops.extend(ops);
    }

    /// All sections, in the order of their beginnings.
    pub(crate) fn sections(&self) -> Vec<(&Op, &Hold)> {
        let holds = |op| Op::hold(op).map(|hold| (op, hold));
        let mut sections: Vec<_> = self.ops.iter().filter_map(holds).collect();
        sections.sort_by_key(|(_, hold)| hold.entered);
        sections
    }

    /// The maximum time between the grant of its lock and its entry, in ns.
    pub(crate) fn lease(&self) -> u64 {
        nanos(self.topology.longest_ttl())
    }

    /// Returns whether any fault certainly took locks of `key` away at any time from `from` to `to`.
    pub(crate) fn taken_away(&self, key: &str, from: u64, to: u64) -> bool {
        self.any_loss(from, to, |fault| fault.takes(key))
    }

    /// Returns whether any fault may have taken locks of `key` away at any time from `from` to `to`.
    pub(crate) fn taken(&self, key: &str, from: u64, to: u64) -> bool {
        let takes = |fault: &Fault| fault.takes(key) || !self.confirm && fault.may_take(key);
        self.any_loss(from, to, takes)
    }

    /// Returns whether any fault may have taken data of `key` away between these two instants. A depth, and a release,
    /// are never confirmed.
    pub(crate) fn forgotten(&self, key: &str, from: u64, to: u64) -> bool {
        self.any_loss(from, to, |fault| fault.takes(key) || fault.may_take(key))
    }

    fn any_loss(&self, from: u64, to: u64, takes: impl Fn(&Fault) -> bool) -> bool {
        let within = |fault: &&Fault| fault.loses_within(from, to);
        self.faults.iter().filter(within).any(takes)
    }

    /// Returns whether there was a fault of this worker itself between two instants.
    pub(crate) fn hit(&self, worker: &str, from: u64, to: u64) -> bool {
        let within = |fault: &&Fault| fault.start <= to && fault.end >= from;
        let mut faults = self.faults.iter().filter(within);
        faults.any(|fault| fault.hits(worker))
    }

    /// The time for which this worker was stopped between two instants.
    pub(crate) fn stopped(&self, worker: &str, from: u64, to: u64) -> u64 {
        let faults = self.faults.iter().filter(|fault| fault.stops(worker));
        let overlap = |fault: &Fault| fault.end.min(to).saturating_sub(fault.start.max(from));
        faults.map(overlap).sum()
    }
}

impl Op {
    fn new(worker: &str, records: &[Record]) -> Option<Op> {
        let first = records.first()?;
        let What::Wants {
            key,
            patience,
            together,
        } = &first.what
        else {
            return None;
        };
        let mut op = Op {
            worker: worker.to_owned(),
            number: first.op,
            key: key.clone(),
            wants: first.at,
            patience: *patience,
            together: *together,
            hold: None,
            reentries: 0,
            wrong_depths: Vec::new(),
            ended: None,
        };
        for record in &records[1..] {
            op.add(record);
        }
        Some(op)
    }

    fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.worker, self.number)
    }

    fn add(&mut self, record: &Record) {
        let at = record.at;
        match &record.what {
            What::Entered {
                token,
                hold,
                ttl,
                shares,
                life,
                ..
            } => {
                let hold = Hold {
                    token: *token,
                    id: hold.clone(),
                    ttl: *ttl,
                    entered: at,
                    valid: None,
                    lease: at,
                    until: at,
                    shares: *shares,
                    left: None,
                    lost: None,
                };
                self.hold.insert(hold).sees(at, *life);
            }
            What::Ended(outcome) => {
                self.ended = Some((at, outcome.clone()));
                if let (Some(hold), Outcome::Lost(reason)) = (&mut self.hold, outcome) {
                    hold.loses(at, *reason);
                }
            }
            What::Reentered => self.reentries += 1,
            What::Depth { wanted, stored } if wanted != stored => {
                self.wrong_depths.push((at, *wanted, *stored));
            }
            What::Step(life) => {
                if let Some(hold) = &mut self.hold {
                    hold.sees(at, *life);
                }
            }
            What::Left { finished } => {
                if let Some(hold) = &mut self.hold {
                    hold.left = Some((at, *finished));
                    hold.until = hold.until.min(at);
                }
            }
            What::Wants { .. } | What::Depth { .. } | What::Calm { .. } => {}
        }
    }
}

impl Hold {
    /// Returns whether this section, and one that entered later, may be inside at the same time.
    pub(crate) fn shares_with(&self, later: &Hold) -> bool {
        self.shares && later.shares
    }

    fn sees(&mut self, at: u64, life: Life) {
        match life {
            Life::Valid(remaining) => {
                self.valid = Some(at);
                self.lease = at + remaining;
                self.until = self.lease;
            }
            Life::Lost(reason) => self.loses(at, reason),
        }
    }

    fn loses(&mut self, at: u64, reason: Reason) {
        self.lost.get_or_insert((at, reason));
        self.until = match reason {
            // It was notified at some time after it had last been valid.
            Reason::Deleted => self.valid.unwrap_or(self.entered),
            _ => self.until.min(at),
        };
    }
}
