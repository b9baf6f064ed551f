//! What the connectors of one store share: the timeouts of a connection, and the generation of what its servers say.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::watch;

use crate::base::error::{FailureClass, Mistake, StoreError};
use crate::base::process::{FORKED, ProcessId};
use crate::base::timer::{Elapsed, timeout};

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// Waits for a response of the driver until the limit.
pub(crate) async fn with_timeout<T>(
    limit: Duration,
    response: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    let response = timeout(limit, response).await;
    response.unwrap_or_else(|Elapsed| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// What the connectors of one store share.
pub(crate) struct ConnectorContext {
    pub(crate) timeouts: Timeouts,
    /// Whether this process describes itself to the servers.
    pub(crate) describes_itself: AtomicBool,
    pub(crate) generation: Generation,
    /// Counts the connections for commands that were opened.
    pub(crate) connections: watch::Sender<u64>,
    /// The process that has first used a connection.
    process: OnceLock<ProcessId>,
}

impl ConnectorContext {
    pub(crate) fn new(timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self {
            timeouts,
            describes_itself: AtomicBool::default(),
            generation: Generation::default(),
            connections: watch::Sender::default(),
            process: OnceLock::default(),
        })
    }

    /// Returns whether this process may use the connections. The process that does so first is the only one.
    ///
    /// A fork copies the connections, and two processes must not read the responses of one socket. It also copies the
    /// holds, which a copy must not release.
    pub(crate) fn belongs_to(&self, process: ProcessId) -> bool {
        *self.process.get_or_init(|| process) == process
    }

    /// Fails if this is a fork of the process that has used the connections.
    pub(crate) fn unless_forked(
        &self,
        verb: &'static str,
        endpoint: impl FnOnce() -> Arc<str>,
    ) -> Result<(), StoreError> {
        if self.belongs_to(ProcessId::this()) {
            return Ok(());
        }
        let error = StoreError::new(verb, &endpoint(), FailureClass::Permanent, FORKED);
        Err(error.with_mistake(Some(Mistake::Other)))
    }
}

/// A number that changes whenever a connection was up and no longer is, or a slot has moved. What a server said before,
/// that it has a lock, or what its clock shows, may no longer hold.
#[derive(Default)]
pub(crate) struct Generation {
    number: AtomicU64,
    changes: watch::Sender<u64>,
}

impl Generation {
    pub(crate) fn number(&self) -> u64 {
        self.number.load(SeqCst)
    }

    /// Begins the next one. The mutex of what has changed is locked, so the change is not seen with the old number.
    pub(super) fn begin(&self) {
        self.number.fetch_add(1, SeqCst);
    }

    /// Wakes those who watch it, after the mutex was released.
    pub(super) fn announce(&self) {
        self.changes.send_replace(self.number());
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
