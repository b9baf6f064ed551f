//! The connections that were lost, as far as locks have to know: each hold that may be concerned is verified.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::watch;

use crate::base::key::SLOTS;

/// Counts the connections that were lost.
#[derive(Debug)]
pub(crate) struct Outages {
    /// All of them.
    all: watch::Sender<u64>,
    /// Those that concern every slot, and for each slot of a cluster those that concern it alone.
    everywhere: AtomicU64,
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

    /// The outages of a cluster, where a server has some of the slots.
    pub(crate) fn of_slots() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            slots: Some(slots),
            ..Self::of_one()
        }
    }

    /// Every lock may be concerned.
    pub(crate) fn everywhere(&self) {
        self.everywhere.fetch_add(1, Relaxed);
        self.all.send_modify(|count| *count += 1);
    }

    /// The locks of these slots may be concerned.
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

    /// Changes with each of them.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// How many of them concern a slot.
    pub(crate) fn of(&self, slot: impl FnOnce() -> u16) -> u64 {
        let own = self
            .slots
            .as_ref()
            .and_then(|slots| slots.get(usize::from(slot())));
        self.everywhere.load(Relaxed) + own.map_or(0, |count| count.load(Relaxed))
    }
}
