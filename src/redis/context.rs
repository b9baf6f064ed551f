//! What the connectors of one store share: the timeouts of a connection, the generation of what its servers say, and the
//! description of this process, which it sends to a server, so that others can show who holds a lock.
//!
//! Every connection for commands sends the description when it is opened, and again long before the description expires.
//! So it exists again soon after a server has lost its data. In a cluster one server has it. Nothing waits for it and
//! nothing depends on it. If it is missing, the ids are shown without it.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};
use tokio::sync::watch;

use crate::base::background::AbortOnDrop;
use crate::base::error::{FailureClass, Mistake, StoreError};
use crate::base::key::slot_of;
use crate::base::process::{FORKED, Process, ProcessId};
use crate::base::timer::{Elapsed, sleep, timeout};

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

/// The time for which a description lasts. It remains for some time after the process has ended.
const DESCRIPTION_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time between two descriptions over one connection.
const DESCRIBE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The time after which the description is repeated to a server that has not executed it.
const DESCRIBE_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The key of the description of a process.
pub(crate) fn description_key(id: ProcessId) -> String {
    format!("reentry:process:{id}")
}

/// The slot of the description in a cluster.
pub(super) fn description_slot() -> u16 {
    slot_of(description_key(ProcessId::this()).as_bytes())
}

/// Describes this process to a server periodically, while that is wanted.
pub(super) fn keep_described(
    driver: MultiplexedConnection,
    limit: Duration,
    is_wanted: impl Fn() -> bool + Send + 'static,
) -> AbortOnDrop {
    AbortOnDrop::spawn(async move {
        loop {
            // Asked each time: a program may want it only later, and a slot may move.
            let pause = match is_wanted() {
                true => describe(driver.clone(), limit).await,
                false => DESCRIBE_INTERVAL,
            };
            sleep(pause).await;
        }
    })
}

/// Describes this process. Returns the pause before the next description. It is one command, so that no description
/// exists without an expiry. A server that delays writes sends no response.
pub(super) async fn describe(mut driver: MultiplexedConnection, limit: Duration) -> Duration {
    let mut set = cmd("SET");
    set.arg(description_key(ProcessId::this()))
        .arg(Process::this().to_text())
        .arg("EX")
        .arg(DESCRIPTION_LIFE.as_secs());
    match with_timeout(limit, set.exec_async(&mut driver)).await {
        // The user is not allowed to do this, so it is repeated rarely.
        Err(error) if error.code() != Some("NOPERM") => DESCRIBE_RETRY_INTERVAL,
        _ => DESCRIBE_INTERVAL,
    }
}
