//! An in-memory store that counts the requests about waits. It can delay them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::base::id::HoldId;
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::store::{ClaimVictim, ListWaits, MemoryStore, Reply, Request, StoreFuture, Wire};
use crate::{Locks, LocksBuilder};

/// The number of requests of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The requests that publish waits or remove them.
    pub(super) changes: u32,
    pub(super) holds: u32,
    pub(super) waits: u32,
    pub(super) claimed: u32,
}

#[derive(Default)]
pub(super) struct Watched {
    store: MemoryStore,
    asked: Mutex<Asked>,
    /// The delay of a request, and that of its response.
    delay: Mutex<Duration>,
    epoch: AtomicU64,
}

impl Watched {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Locks on it, with a heartbeat of a second.
    pub(super) fn locks(self: &Arc<Self>) -> Locks {
        self.locks_of(Locks::builder("memory:"))
    }

    /// Locks with further options.
    pub(super) fn locks_of(self: &Arc<Self>, builder: LocksBuilder) -> Locks {
        builder.build_on_wire(Arc::clone(self), Duration::from_secs(1))
    }

    pub(super) fn asked(&self) -> Asked {
        *self.asked.lock()
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    /// Another server responds from now on.
    pub(super) fn reconnect(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Returns whether a wait is published that this hold encloses.
    pub(super) fn has_record(&self, hold: HoldId) -> bool {
        !self.store.apply(ListWaits { hold }).waits.is_empty()
    }

    /// Chooses, of the waits inside these holds, the one that must give way.
    pub(super) fn choose_victim(&self, holds: [HoldId; 2], chosen: usize) {
        let waits = holds.map(|hold| self.store.apply(ListWaits { hold }).waits[0].wait.id);
        let claim = ClaimVictim {
            victim: waits[chosen],
            others: vec![waits[1 - chosen]],
            life: Duration::from_secs(60),
        };
        assert!(self.store.apply(claim));
    }
}

impl Asked {
    /// The counter for this request; `None` if the request is not about a wait.
    fn count(&mut self, name: &str) -> Option<&mut u32> {
        Some(match name {
            "update_wait" => &mut self.changes,
            "list_holds" => &mut self.holds,
            "list_waits" => &mut self.waits,
            "claim_victim" => &mut self.claimed,
            _ => return None,
        })
    }
}

impl Wire for Watched {
    fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// It is in flight from the first poll on, whether or not a caller waits for it.
    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let (name, carried) = (request.name(), self.store.carry(request));
        match self.asked.lock().count(name) {
            Some(count) => *count += 1,
            None => return carried,
        }
        let delay = *self.delay.lock();
        Box::pin(async move {
            if delay.is_zero() {
                return carried.await;
            }
            let asking = tokio::spawn(async move {
                sleep(delay).await;
                carried.await
            });
            let answer = asking.await.expect("no panic");
            sleep(delay).await;
            answer
        })
    }

    fn generation(&self) -> u64 {
        self.epoch.load(Relaxed)
    }
}
