//! What operators look at: which locks there are, and who waits for one. Each answer costs the store little, however much
//! is there, and none changes anything.

use std::{sync::Arc, time::Duration};

use super::{
    answer::Answer,
    protocol::{Snapshot, StoreTime},
};
use crate::base::{error::StoreError, id::HoldId, key::LockKey, mode::Mode};

/// How many holders a glance shows at most.
pub(crate) const GLANCED: usize = 16;

/// In a queue of up to this length, those that have died are not counted.
pub(crate) const LOOKED_AT: usize = 64;

/// Where operators look.
pub(crate) trait Survey: Send + Sync {
    /// A part of the names of the keys that may be locks: all that are there while the whole scan lasts, some of them
    /// more than once maybe, and others.
    fn scan(&self, scan: Scan) -> Answer<Scanned>;

    /// What stands in a lock; `None` if it is free, or if what stands there does not look like a lock.
    fn glance(&self, key: &LockKey) -> Answer<Option<Glance>>;

    /// Whether the store has refused a request because of its key alone, so that it says nothing of other keys.
    fn refuses_key(&self, _error: &StoreError) -> bool {
        false
    }

    /// A part of the processes that wait for a lock, in their order.
    fn queue(&self, key: &LockKey, page: QueuePage) -> Answer<Queued>;
}

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
    /// That of its data: in other data the place means nothing.
    pub(crate) history: Arc<str>,
    pub(crate) place: Place,
    /// How many keys there were at the beginning, if that is known, and how many have been looked at.
    pub(crate) keys: Option<u64>,
    pub(crate) seen: u64,
}

/// A place among the keys of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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

/// What stands in a lock, as far as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    /// At most [`GLANCED`] holders. If more than [`LOOKED_AT`] processes wait, those that have died are counted too.
    pub(crate) snapshot: Snapshot,
    /// How many holders there are.
    pub(crate) holders: u64,
}

/// Which part of a queue is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePage {
    /// Behind the process that has this order.
    pub(crate) after: Option<u64>,
    pub(crate) count: usize,
}

/// A part of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) at: StoreTime,
    /// How many places there are, those of dead processes too.
    pub(crate) places: u64,
    pub(crate) processes: Vec<QueuedProcess>,
}

/// The place of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedProcess {
    /// The inbox. Other programs may write any bytes there.
    pub(crate) inbox: Vec<u8>,
    pub(crate) order: u64,
    /// Until when it counts as alive; `None` if it is not known what it waits for.
    pub(crate) deadline: Option<StoreTime>,
    pub(crate) holds: Vec<HoldId>,
    /// The lease of a lock that moves to it.
    pub(crate) grant: Duration,
    pub(crate) mode: Mode,
}
