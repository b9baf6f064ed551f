//! A server in memory with its connections: what happens to a real server and its network can happen to it.

use std::{
    fmt, ptr,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{connection::Connection, host::Host, wire::Wire};
use crate::{
    base::mutex::Mutex,
    store::{Store, redis::Timeouts},
};

/// The server. Clones are the same.
#[derive(Clone)]
pub(crate) struct Network {
    host: Arc<Host>,
    /// In the order in which they were opened, in which they are also told.
    connections: Arc<Mutex<Vec<Weak<Connection>>>>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            host: Arc::new(Host::new()),
            connections: Arc::default(),
        }
    }

    /// The store of one process, which has connected, if the server runs.
    pub(crate) fn connect(&self, timeouts: Timeouts) -> Arc<Store> {
        let opened = self.open_connection(timeouts);
        // As of any store, the first request finds out.
        drop(opened.wire().connect());
        Arc::new(Store::Behind(opened))
    }

    /// The store of one process. Connects when it is asked first.
    pub(crate) fn open(&self, timeouts: Timeouts) -> Arc<Store> {
        Arc::new(Store::Behind(self.open_connection(timeouts)))
    }

    fn open_connection(&self, timeouts: Timeouts) -> Arc<Connection> {
        let opened = Arc::new(Connection::new(&self.host, timeouts));
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(Arc::downgrade(&opened));
        opened
    }

    /// Ends all connections, and refuses new ones.
    pub(crate) fn stop(&self) {
        self.host.stop();
        self.on_wires(Wire::end);
    }

    /// Goes on with its data, if it was stopped.
    pub(crate) fn start(&self) {
        self.host.start();
        self.on_wires(Wire::subscribe_again);
    }

    /// Executes nothing more, if it was running. What arrives waits.
    pub(crate) fn pause(&self) {
        self.host.pause();
    }

    /// Executes what has arrived meanwhile, if it was paused, and goes on.
    pub(crate) fn resume(&self) {
        self.host.resume();
        self.on_wires(Wire::subscribe_again);
    }

    /// Loses all its data, and keeps its connections.
    pub(crate) fn lose_data(&self) {
        self.host.store.forget();
    }

    pub(crate) fn step_clock_forward(&self, by: Duration) {
        self.host.store.step_clock_forward(by);
    }

    pub(crate) fn step_clock_back(&self, by: Duration) {
        self.host.store.step_clock_back(by);
    }

    /// Nothing comes through between it and this store any more. Returns false if that is of another server.
    pub(crate) fn partition(&self, store: &Arc<Store>) -> bool {
        self.on_wire_of(store, Wire::partition)
    }

    /// All comes through again, over new connections.
    pub(crate) fn heal(&self, store: &Arc<Store>) -> bool {
        self.on_wire_of(store, Wire::heal)
    }

    fn on_wires(&self, happens: impl Fn(&Wire)) {
        let open = self.open_connections();
        open.iter()
            .for_each(|connection| happens(connection.wire()));
        self.host.changed();
    }

    fn on_wire_of(&self, store: &Arc<Store>, happens: impl Fn(&Wire)) -> bool {
        let Store::Behind(wire) = &**store else {
            return false;
        };
        let is_it = |connection: &&Arc<Connection>| {
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

    fn open_connections(&self) -> Vec<Arc<Connection>> {
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
