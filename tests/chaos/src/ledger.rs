//! The records of every worker about its own sections, as one line of JSON for each event.
//!
//! A line is one write to a file that is opened for appending. So a worker that is killed leaves at most one incomplete
//! line, its last.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use reentry::LostReason;
use serde::{Deserialize, Serialize};

use crate::clock;

/// One line: the event, its operation, and the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The time on the clock that all processes share.
    pub(crate) at: u64,
    /// The number of the operation, which is unique in its worker. It is one attempt at one lock, and the section that
    /// may follow.
    pub(crate) op: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum What {
    /// An attempt begins. It waits for this number of ns at most.
    Wants {
        key: String,
        patience: u64,
        /// Whether the same request acquires other keys too.
        together: bool,
    },
    /// The body has begun.
    Entered {
        key: String,
        token: u64,
        hold: String,
        /// The longest lease that a renewal may have requested, in ns.
        ttl: u64,
        /// Whether it shares the lock.
        shares: bool,
        life: Life,
    },
    /// The body continues.
    Step(Life),
    /// The section re-entered its own lock.
    Reentered,
    /// The depth in the store while the body was at a depth of its own.
    Depth { wanted: u64, stored: u64 },
    /// The body has ended, or was dropped.
    Left { finished: bool },
    /// The result for the caller.
    Ended(Outcome),
    /// In the phase without faults, this worker has had this key.
    Calm { key: String },
}

/// The knowledge of a body about its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Life {
    /// It is valid at the time of the record, and lasts for this number of ns more.
    Valid(u64),
    Lost(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Reason {
    Deleted,
    Expired,
    MaxHold,
    Sibling,
    Unknown,
}

impl From<LostReason> for Reason {
    fn from(reason: LostReason) -> Reason {
        match reason {
            LostReason::Deleted => Reason::Deleted,
            LostReason::Expired => Reason::Expired,
            LostReason::MaxHold => Reason::MaxHold,
            LostReason::Sibling => Reason::Sibling,
            _ => Reason::Unknown,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done,
    Lost(Reason),
    /// Another worker held the lock.
    Busy,
    /// Another worker held the lock until the wait was over.
    Timeout,
    /// The store failed, or too few replicas had the lock in time.
    Unavailable,
    /// It gave way, because callers waited for each other.
    Deadlock,
    /// The caller dropped it.
    Dropped,
    /// An error that no fault explains.
    Unexpected(String),
}

/// Where one worker writes.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    ops: AtomicU64,
}

impl Ledger {
    pub(crate) fn create(path: &Path) -> Result<Ledger> {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(path)?;
        Ok(Ledger {
            file,
            ops: AtomicU64::new(0),
        })
    }

    pub(crate) fn next_op(&self) -> u64 {
        self.ops.fetch_add(1, Ordering::Relaxed)
    }

    /// `at` is before the moment at which the record was known to be true.
    pub(crate) fn write(&self, at: u64, op: u64, what: What) {
        let record = Record { at, op, what };
        let line = serde_json::to_string(&record).map(|line| line + "\n");
        let line = line.unwrap_or_else(|error| panic!("{record:?}: {error}"));
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            panic!("the ledger cannot be written: {error}");
        }
    }

    pub(crate) fn write_now(&self, op: u64, what: What) {
        self.write(clock::now(), op, what);
    }
}

/// All records of one worker. An incomplete last line is an error unless the worker was `killed`.
pub(crate) fn read(path: &Path, killed: bool) -> Result<Vec<Record>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() && !killed {
        bail!("{}: torn, although it was not killed", path.display());
    }
    let parse =
        |line| serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()));
    text[..whole].lines().map(parse).collect()
}
