//! The store of one process, which sends requests over a wire to the server.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::host::Host;
use super::wire::ProcessWire;
use crate::base::id::InboxId;
use crate::redis::Timeouts;
use crate::store::{
    self, ForcedReleaseListener, Listener, MemoryStore, Reply, Request, StoreFuture,
};

pub(super) struct ProcessConnection(Arc<ProcessWire>);

impl ProcessConnection {
    pub(super) fn new(host: &Arc<Host>, timeouts: Timeouts) -> Self {
        Self(Arc::new(ProcessWire::new(host, timeouts)))
    }

    pub(super) fn wire(&self) -> &ProcessWire {
        &self.0
    }
}

impl store::Wire for ProcessConnection {
    fn store(&self) -> &MemoryStore {
        &self.0.host.store
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let wire = Arc::clone(&self.0);
        Box::pin(async move {
            // Without failures nothing here waits, so a loop around a lock would starve other tasks.
            consume_budget().await;
            wire.run(request).await
        })
    }

    fn connect(&self) -> StoreFuture<()> {
        let wire = Arc::clone(&self.0);
        Box::pin(async move { wire.connected().await.map(drop) })
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        self.0.listen(inbox, listener)
    }

    fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        self.0.watch(holders);
    }

    fn suspect(&self, _since: Instant) {
        self.0.suspect();
    }

    fn answers_within(&self) -> Duration {
        self.0.answers_within()
    }

    fn close(&self) {
        self.0.close();
    }

    fn generations(&self) -> watch::Receiver<u64> {
        self.0.watch_disconnects()
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.watch_connections())
    }
}

impl fmt::Debug for ProcessConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessConnection")
    }
}
