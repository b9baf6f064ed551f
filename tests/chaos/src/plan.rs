//! The common settings of every run: the keys, the times, and the kinds of workers.

use std::path::PathBuf;
use std::time::Duration;

use reentry::{Locks, LocksBuilder};
use serde::{Deserialize, Serialize};

use crate::topology::Topology;

/// The keys of locks, and one of a semaphore. All workers want the first two all the time, and the others now and then.
pub(crate) const KEYS: [&str; 9] = [
    "hot:0", "hot:1", "cold:0", "cold:1", "cold:2", "cold:3", "cold:4", "cold:5", SEMAPHORE,
];
pub(crate) const HOT: usize = 2;
/// The number of the keys that are locks.
pub(crate) const LOCKS: usize = KEYS.len() - 1;

/// The key of the semaphore, and its number of permits.
pub(crate) const SEMAPHORE: &str = "permits";
const PERMITS: u32 = 3;

/// The number of callers that may share this key; `None` if there is no limit.
pub(crate) fn permits(key: &str) -> Option<u32> {
    (key == SEMAPHORE).then_some(PERMITS)
}

pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The time for replicas to confirm a lock, if it counts only then.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

/// The number of worker processes at any time, one of each mode, and the number of tasks in each.
pub(crate) const WORKERS: usize = MODES.len();
pub(crate) const TASKS: u64 = 6;

/// The configuration of the `Locks` of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) ttl: Duration,
    turns: u32,
}

/// The TTL with one server in ms, and the turns, of each mode.
const MODES: [(u64, u32); 5] = [(900, 16), (600, 16), (1200, 0), (2000, 2), (900, 2)];

impl Mode {
    pub(crate) fn of(order: &Order) -> Mode {
        let (ttl, turns) = MODES[order.mode];
        let ttl = order.topology.scale() * Duration::from_millis(ttl);
        Mode { ttl, turns }
    }

    fn builder(&self, topology: Topology, url: &str) -> LocksBuilder {
        Locks::builder(url)
            .ttl(self.ttl)
            .wait(topology.wait())
            .outage(topology.wait())
            .response_timeout(RESPONSE_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .turns(self.turns)
    }
}

/// The settings with which one worker process is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Unique in a run.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) ledger: PathBuf,
    pub(crate) mode: usize,
    pub(crate) topology: Topology,
    pub(crate) confirm: bool,
    pub(crate) seed: u64,
}

impl Order {
    pub(crate) fn builder(&self) -> LocksBuilder {
        let builder = Mode::of(self).builder(self.topology, &self.url);
        if self.confirm {
            builder.confirm(self.topology.replicas(), CONFIRMED_WITHIN)
        } else {
            builder
        }
    }
}

/// The message to a worker to begin no new sections, except one for every key.
pub(crate) const BE_CALM: &str = "calm";
/// The response of a worker when it has had them.
pub(crate) const IS_CALM: &str = "is calm";
/// The last message to a worker.
pub(crate) const END: &str = "end";
