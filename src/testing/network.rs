//! An in-memory server with its connections. It can simulate everything that happens to a real server and its network.

use std::ptr;
use std::sync::{Arc, Weak};

use super::host::Host;
use super::process_wire::{ProcessWire, WireHandle};
use crate::base::sync::Mutex;
use crate::redis::Timeouts;
use crate::store::Store;

/// The server with its connections. Clones are the same server.
#[derive(Clone, Default)]
pub(super) struct Network {
    pub(super) host: Arc<Host>,
    /// The wires in the order in which they were made. Events reach them in this order. Each is what the store of its
    /// process has.
    wires: Arc<Mutex<Vec<Weak<WireHandle>>>>,
}

impl Network {
    /// Returns the store of one process, connected if the server is running.
    pub(super) fn connect(&self, timeouts: Timeouts) -> Arc<Store> {
        let wire = self.add_wire(timeouts);
        // As with any store, the first request reports a failure.
        drop(wire.try_connect());
        Arc::new(Store::Behind(wire))
    }

    /// Returns the store of one process, which connects at its first request.
    pub(super) fn open(&self, timeouts: Timeouts) -> Arc<Store> {
        Arc::new(Store::Behind(self.add_wire(timeouts)))
    }

    fn add_wire(&self, timeouts: Timeouts) -> Arc<WireHandle> {
        let wire = Arc::new(Arc::new(ProcessWire::new(&self.host, timeouts)));
        let mut wires = self.wires.lock();
        // A `Locks` that was dropped leaves its wire here.
        wires.retain(|wire| wire.strong_count() > 0);
        wires.push(Arc::downgrade(&wire));
        wire
    }

    pub(super) fn on_wires(&self, happens: impl Fn(&ProcessWire)) {
        self.wires().iter().for_each(|wire| happens(wire));
        self.host.notify_changed();
    }

    /// Returns false if the store belongs to another server.
    pub(super) fn on_wire_of(&self, store: &Arc<Store>, happens: impl Fn(&ProcessWire)) -> bool {
        let Store::Behind(of) = &**store else {
            return false;
        };
        let wires = self.wires();
        let is_it = |wire: &&Arc<_>| ptr::addr_eq(Arc::as_ptr(wire), Arc::as_ptr(of));
        let found = wires.iter().find(is_it);
        // The mutex of the list is free again: an event may wake code that makes another wire.
        found.iter().for_each(|wire| happens(wire));
        self.host.notify_changed();
        found.is_some()
    }

    fn wires(&self) -> Vec<Arc<WireHandle>> {
        let wires = self.wires.lock();
        wires.iter().filter_map(Weak::upgrade).collect()
    }
}
