//! An in-memory server with its connections. It can simulate everything that happens to a real server and its network.

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, ptr};

use super::connection::ProcessConnection;
use super::host::Host;
use super::wire::ProcessWire;
use crate::base::sync::Mutex;
use crate::redis::Timeouts;
use crate::store::Store;

/// The server with its connections. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Network {
    host: Arc<Host>,
    /// The connections in the order in which they were opened. Events reach them in this order.
    connections: Arc<Mutex<Vec<Weak<ProcessConnection>>>>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            host: Arc::new(Host::new()),
            connections: Arc::default(),
        }
    }

    /// Returns the store of one process, connected if the server is running.
    pub(crate) fn connect(&self, timeouts: Timeouts) -> Arc<Store> {
        let opened = self.open_connection(timeouts);
        // As with any store, the first request reports a failure.
        drop(opened.wire().connect());
        Arc::new(Store::Behind(opened))
    }

    /// Returns the store of one process, which connects at its first request.
    pub(crate) fn open(&self, timeouts: Timeouts) -> Arc<Store> {
        Arc::new(Store::Behind(self.open_connection(timeouts)))
    }

    fn open_connection(&self, timeouts: Timeouts) -> Arc<ProcessConnection> {
        let opened = Arc::new(ProcessConnection::new(&self.host, timeouts));
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(Arc::downgrade(&opened));
        opened
    }

    /// Ends all connections, and rejects new ones.
    pub(crate) fn stop(&self) {
        self.host.stop();
        self.on_wires(ProcessWire::end);
    }

    /// Starts a stopped server with its data.
    pub(crate) fn start(&self) {
        self.host.start();
        self.on_wires(ProcessWire::subscribe_again);
    }

    /// Pauses a running server: it executes nothing more, and requests that arrive wait.
    pub(crate) fn pause(&self) {
        self.host.pause();
    }

    /// Resumes a paused server, which first executes the requests that have arrived meanwhile.
    pub(crate) fn resume(&self) {
        self.host.resume();
        self.on_wires(ProcessWire::subscribe_again);
    }

    /// Removes all data of the server, and keeps its connections.
    pub(crate) fn lose_data(&self) {
        self.host.store.forget();
    }

    pub(crate) fn step_clock_forward(&self, by: Duration) {
        self.host.store.step_clock_forward(by);
    }

    pub(crate) fn step_clock_back(&self, by: Duration) {
        self.host.store.step_clock_back(by);
    }

    /// Cuts the network between the server and this store. Returns false if the store belongs to another server.
    pub(crate) fn partition(&self, store: &Arc<Store>) -> bool {
        self.on_wire_of(store, ProcessWire::partition)
    }

    /// Repairs the network between the server and this store, which opens new connections. Returns false if the store
    /// belongs to another server.
    pub(crate) fn heal(&self, store: &Arc<Store>) -> bool {
        self.on_wire_of(store, ProcessWire::heal)
    }

    fn on_wires(&self, happens: impl Fn(&ProcessWire)) {
        let open = self.open_connections();
        open.iter()
            .for_each(|connection| happens(connection.wire()));
        self.host.changed();
    }

    fn on_wire_of(&self, store: &Arc<Store>, happens: impl Fn(&ProcessWire)) -> bool {
        let Store::Behind(wire) = &**store else {
            return false;
        };
        let is_it = |connection: &&Arc<ProcessConnection>| {
            ptr::addr_eq(Arc::as_ptr(connection), Arc::as_ptr(wire))
        };
        let open = self.open_connections();
        let found = open.iter().find(is_it);
        found
            .iter()
            .for_each(|connection| happens(connection.wire()));
        self.host.changed();
        found.is_some()
    }

    fn open_connections(&self) -> Vec<Arc<ProcessConnection>> {
        let connections = self.connections.lock();
        connections.iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("condition", &self.host.condition())
            .finish_non_exhaustive()
    }
}
