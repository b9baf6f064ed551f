//! The state that the connectors of one store share, above all the counts of connections that were opened and lost.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::watch;

use super::batches::Scope;
use crate::base::key::SLOTS;
use crate::store::records::Holders;
use crate::store::redis::link::source::Timeouts;

/// The receiver of the messages to all processes, after it was set.
pub(crate) type Watched = Arc<OnceLock<Weak<dyn Holders>>>;

/// The role of a connector's server among the servers of the store.
pub(crate) trait Role: Send + Sync {
    /// Notes that a connection was lost.
    fn lost(&self);

    /// Returns whether the server has a slot.
    fn has(&self, slot: u16) -> bool;

    /// The requests to the server that may travel together.
    fn scope(&self) -> Scope;
}

/// The only server has all slots.
impl Role for Arc<Outages> {
    fn lost(&self) {
        self.everywhere();
    }

    fn has(&self, _slot: u16) -> bool {
        true
    }

    fn scope(&self) -> Scope {
        Scope::Server
    }
}

/// The minimum number of requests in flight to a server for the next short one to travel in a batch. If only one is in
/// flight, the next one is sent alone, because a batch of one costs more than it saves.
const TOGETHER_FROM: usize = 2;

/// The state that the connectors of one store share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) timeouts: Timeouts,
    /// The minimum number of requests in flight to a server for the next short one to travel in a batch.
    pub(crate) together_from: usize,
    /// The receiver of the messages to all processes. Only the crate's own connections deliver any.
    pub(crate) watched: Watched,
    /// Whether this process describes itself to the servers.
    pub(crate) introduces: Arc<AtomicBool>,
    pub(crate) outages: Arc<Outages>,
    /// The latest epoch of all connectors.
    pub(crate) epochs: Arc<AtomicU64>,
    /// Counts the connections for commands that were opened.
    pub(crate) made: watch::Sender<u64>,
}

impl Common {
    pub(crate) fn new(timeouts: Timeouts, outages: Outages) -> Self {
        Self {
            timeouts,
            together_from: TOGETHER_FROM,
            outages: Arc::new(outages),
            watched: Watched::default(),
            introduces: Arc::default(),
            epochs: Arc::default(),
            made: watch::Sender::new(0),
        }
    }
}

/// The counts of lost connections, so that each hold that may be affected is verified.
#[derive(Debug)]
pub(crate) struct Outages {
    /// The number of all outages.
    all: watch::Sender<u64>,
    /// The number of outages that affect every slot.
    everywhere: AtomicU64,
    /// The numbers of the other outages, for each slot of a cluster.
    slots: Option<Box<[AtomicU64]>>,
}

impl Outages {
    /// The outages of one server.
    pub(crate) fn of_one() -> Self {
        Self {
            all: watch::Sender::new(0),
            everywhere: AtomicU64::new(0),
            slots: None,
        }
    }

    /// The outages of a cluster, in which each server has some of the slots.
    pub(crate) fn of_slots() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            slots: Some(slots),
            ..Self::of_one()
        }
    }

    /// Counts an outage that may affect every lock.
    pub(crate) fn everywhere(&self) {
        self.everywhere.fetch_add(1, Relaxed);
        self.all.send_modify(|count| *count += 1);
    }

    /// Counts an outage that may affect the locks of these slots.
    pub(crate) fn at(&self, concerned: impl IntoIterator<Item = u16>) {
        let Some(slots) = &self.slots else {
            return self.everywhere();
        };
        let mut is_any = false;
        for slot in concerned {
            if let Some(count) = slots.get(usize::from(slot)) {
                count.fetch_add(1, Relaxed);
                is_any = true;
            }
        }
        if is_any {
            self.all.send_modify(|count| *count += 1);
        }
    }

    /// The number of all outages.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// The number of outages that affect a slot.
    pub(crate) fn of(&self, slot: impl FnOnce() -> u16) -> u64 {
        let own = self
            .slots
            .as_ref()
            .and_then(|slots| slots.get(usize::from(slot())));
        self.everywhere.load(Relaxed) + own.map_or(0, |count| count.load(Relaxed))
    }
}
