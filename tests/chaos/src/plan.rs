//! What every run has in common: the keys, the times, and the kinds of workers.

use std::path::PathBuf;
use std::time::Duration;

use reentry::{DepthSync, Handoff, Locks, LocksBuilder, Replicas, Wake};
use serde::{Deserialize, Serialize};

use crate::register::Place;
use crate::topology::Topology;

/// Locks, and then a semaphore. All workers want the first two all the time, and the others now and then.
pub(crate) const KEYS: [&str; 9] = [
    "hot:0", "hot:1", "cold:0", "cold:1", "cold:2", "cold:3", "cold:4", "cold:5", SEMAPHORE,
];
pub(crate) const HOT: usize = 2;
/// How many of the keys are locks.
pub(crate) const LOCKS: usize = KEYS.len() - 1;

/// The key that is shared by so many callers at most.
pub(crate) const SEMAPHORE: &str = "permits";
const PERMITS: u32 = 3;

/// How many callers may share this key; `None` where there is no limit.
pub(crate) fn permits(key: &str) -> Option<u32> {
    (key == SEMAPHORE).then_some(PERMITS)
}

pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long replicas have to confirm a lock, where it counts only then.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(1);

/// How many worker processes there are at any time, one of each mode, and how many tasks in each.
pub(crate) const WORKERS: usize = MODES.len();
pub(crate) const TASKS: u64 = 6;

/// How many more tasks a worker has, and how many keys they take one of, where there are to be many.
pub(crate) const MANY_TASKS: u64 = 64;
pub(crate) const MANY_KEYS: u32 = 10_000;

/// How the `Locks` of one worker is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) ttl: Duration,
    handoff: Handoff,
    local_handoffs: u32,
    wake: Wake,
    depth_sync: DepthSync,
}

/// As with one server.
const MODES: [Mode; 5] = [
    Mode {
        ttl: Duration::from_millis(900),
        handoff: Handoff::InStore,
        local_handoffs: 16,
        wake: Wake::Notify,
        depth_sync: DepthSync::Awaited,
    },
    Mode {
        ttl: Duration::from_millis(600),
        handoff: Handoff::InProcess,
        local_handoffs: 16,
        wake: Wake::Notify,
        depth_sync: DepthSync::Awaited,
    },
    Mode {
        ttl: Duration::from_millis(1200),
        handoff: Handoff::InStore,
        local_handoffs: 0,
        wake: Wake::Notify,
        depth_sync: DepthSync::Background,
    },
    Mode {
        ttl: Duration::from_secs(2),
        handoff: Handoff::InProcess,
        local_handoffs: 2,
        wake: Wake::Backoff,
        depth_sync: DepthSync::Background,
    },
    Mode {
        ttl: Duration::from_millis(900),
        handoff: Handoff::InStore,
        local_handoffs: 2,
        wake: Wake::Poll {
            interval: Duration::from_millis(20),
            attempts: None,
        },
        depth_sync: DepthSync::Awaited,
    },
];

impl Mode {
    pub(crate) fn of(order: &Order) -> Mode {
        let mode = MODES[order.mode];
        let ttl = order.topology.scale() * mode.ttl;
        Mode { ttl, ..mode }
    }

    fn builder(&self, topology: Topology, url: &str) -> LocksBuilder {
        Locks::builder()
            .url(url)
            .ttl(self.ttl)
            .wait(topology.wait())
            .heartbeat(HEARTBEAT)
            .response_timeout(RESPONSE_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .handoff(self.handoff)
            .local_handoffs(self.local_handoffs)
            .wake(self.wake)
            .depth_sync(self.depth_sync)
    }

    /// Whether the depth in the store is exact while a nested body runs.
    pub(crate) fn depth_is_awaited(&self) -> bool {
        self.depth_sync == DepthSync::Awaited
    }
}

/// What one worker process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Unique in a run.
    pub(crate) name: String,
    pub(crate) url: String,
    /// The socket of the fenced resource.
    pub(crate) resource: PathBuf,
    /// Where the register is, if there is one.
    pub(crate) register: Option<Place>,
    pub(crate) ledger: PathBuf,
    /// Where the events of the library go, if they are wanted.
    pub(crate) trace: Option<PathBuf>,
    pub(crate) mode: usize,
    pub(crate) topology: Topology,
    pub(crate) confirm: bool,
    pub(crate) many: bool,
    pub(crate) seed: u64,
}

impl Order {
    pub(crate) fn builder(&self) -> LocksBuilder {
        let builder = Mode::of(self).builder(self.topology, &self.url);
        if self.confirm {
            builder.confirm(Replicas::all(), CONFIRMED_WITHIN)
        } else {
            builder
        }
    }
}

/// What a worker is told: no new sections, but every key once.
pub(crate) const BE_CALM: &str = "calm";
/// What it answers when it has had them.
pub(crate) const IS_CALM: &str = "is calm";
/// What it is told last.
pub(crate) const END: &str = "end";
