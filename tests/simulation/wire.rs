//! What the connection and the inbox of one process share: the server at the other end, and whether the
//! process still lives.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{climate::Climate, ledger::Ledger, server::Server};

pub(super) struct Wire {
    pub(super) server: Arc<Server>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) climate: Climate,
    /// The process was killed: nothing leaves it, and nothing reaches it.
    dead: AtomicBool,
}

impl Wire {
    pub(super) fn new(server: &Arc<Server>, ledger: &Arc<Ledger>, climate: Climate) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::clone(server),
            ledger: Arc::clone(ledger),
            climate,
            dead: AtomicBool::new(false),
        })
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(super) fn kill(&self) {
        self.dead.store(true, Relaxed);
    }
}
