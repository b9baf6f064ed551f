//! What became of the transactions in the register: as its server has it, and as the workers know it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What became of one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Entry {
    Committed,
    /// The fence has refused its token.
    Refused,
    /// Ended by the server, or by an error on the way to it.
    Failed(String),
}

/// What the server has for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) key: String,
    pub(crate) value: i64,
    /// The transactions that were committed.
    pub(crate) rows: i64,
    /// The transactions that were committed directly behind one with a greater token.
    pub(crate) stale: i64,
}

/// What the workers know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The transactions whose commit was about to be sent.
    pub(crate) sent: i64,
    pub(crate) committed: i64,
    pub(crate) refused: i64,
    /// The other errors, with the number of each.
    pub(crate) failed: BTreeMap<String, i64>,
}

impl Tally {
    pub(crate) fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Committed => self.committed += 1,
            Entry::Refused => self.refused += 1,
            Entry::Failed(error) => *self.failed.entry(error.clone()).or_default() += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.committed += other.committed;
        self.refused += other.refused;
        for (error, count) in &other.failed {
            *self.failed.entry(error.clone()).or_default() += count;
        }
    }

    /// The commits of which no worker knows whether they took place.
    pub(crate) fn unknown(&self) -> i64 {
        self.sent - self.committed
    }
}
