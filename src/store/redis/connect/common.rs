//! What the connectors of one store have in common, and what each of them is.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use redis::Value;
use tokio::sync::watch;

use super::connection::Connection;
use super::recent_releases::RecentReleases;
use crate::base::error::{Effect, StoreError};
use crate::store::records::messages::Holders;
use crate::store::redis::link::outages::Outages;
use crate::store::redis::link::source::Timeouts;
use crate::store::redis::wire::call::Call;
use crate::store::redis::wire::value::Unexpected;

/// Who is told of the messages to all processes, once it is there.
pub(crate) type Watched = Arc<OnceLock<Weak<dyn Holders>>>;

/// What its server is among those of the store.
pub(crate) trait Role: Send + Sync {
    /// A connection was lost.
    fn lost(&self);

    /// Whether it has a slot.
    fn has(&self, slot: u16) -> bool;
}

/// What the connectors of one store have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) timeouts: Timeouts,
    /// Who is told of the messages to all processes. Only connections of our own bring any.
    pub(crate) watched: Watched,
    pub(crate) outages: Arc<Outages>,
    /// The latest epoch of all.
    pub(crate) epochs: Arc<AtomicU64>,
    pub(crate) recent: Arc<RecentReleases>,
    /// Counts the connections for commands that were made.
    pub(crate) made: watch::Sender<u64>,
}

impl Common {
    pub(crate) fn new(timeouts: Timeouts, outages: Outages) -> Self {
        Self {
            timeouts,
            outages: Arc::new(outages),
            watched: Watched::default(),
            epochs: Arc::default(),
            recent: Arc::default(),
            made: watch::Sender::new(0),
        }
    }

    /// Reads the answer to a call.
    pub(crate) fn read<T>(
        &self,
        connection: &Connection,
        call: Call,
        reply: Value,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let read = read(reply);
        let read = read.map_err(|cause| connection.error(&call, Effect::Unknown, cause))?;
        if call.is_release() {
            self.recent.answered(call, &connection.replication_id);
        }
        Ok(read)
    }
}
