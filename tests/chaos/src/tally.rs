//! The results of the transactions in the register, according to its server and to the workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Entry {
    Committed,
    /// The fence has rejected its token.
    Refused,
    /// The server has ended it, or an error on the connection.
    Failed(String),
}

/// The data of the server for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) key: String,
    pub(crate) value: i64,
    /// The transactions that were committed.
    pub(crate) rows: i64,
    /// The transactions that were committed directly after one with a greater token.
    pub(crate) stale: i64,
}

/// The knowledge of the workers.
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

    /// The commits about which no worker knows whether they were executed.
    pub(crate) fn unknown(&self) -> i64 {
        self.sent - self.committed
    }
}
