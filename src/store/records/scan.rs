//! Which locks there are, a part of the keys at a time.

use std::sync::Arc;

/// Which part of the keys is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// What the names match, with the prefix.
    pub(crate) pattern: Arc<str>,
    /// How many keys are looked at, more or less.
    pub(crate) count: usize,
    pub(crate) from: Cursor,
}

/// Where a scan goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The servers that have been looked through.
    pub(crate) done: Vec<Arc<str>>,
    /// The one that is being looked through.
    pub(crate) present: Option<InServer>,
}

/// Where a scan goes on in one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InServer {
    pub(crate) server: Arc<str>,
    /// The replication ID for which `place` is valid.
    pub(crate) replication_id: Arc<str>,
    pub(crate) place: ScanPlace,
    /// How many keys there were at the beginning, if that is known, and how many have been looked at.
    pub(crate) keys: Option<u64>,
    pub(crate) seen: u64,
}

/// A place among the keys of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanPlace {
    /// What the server calls it.
    Named(u64),
    /// Behind this key.
    Behind(String),
}

/// A part of the keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scanned {
    /// The keys in the store, with the prefix.
    pub(crate) names: Vec<String>,
    /// How many keys are left out because they are no text: this crate has no lock of such a name.
    pub(crate) unnamed: u64,
    /// `None` at the end.
    pub(crate) next: Option<Cursor>,
    /// Which part of all keys has been looked at, from 0 to 1: an estimate.
    pub(crate) progress: f64,
}
