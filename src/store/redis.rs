//! Locks in Redis.

use std::error::Error;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;

use self::connect::common::Common;
use self::inbox::Inbox;
use self::link::outages::Outages;
use self::link::source::Source;
use self::topology::Topology;
use self::wire::failure::{self, DriverError};
use super::records::{Holders, Listener, Scan, Scanned};
use crate::base::error::{Answer, StoreError};
use crate::base::id::InboxId;
use crate::base::key::LockKey;
use crate::base::option_types::{Confirmation, Replicas};

mod connect;
mod inbox;
pub(crate) mod link;
mod replicas;
mod scan;
mod topology;
pub(crate) mod wire;

pub(crate) use self::link::source::Timeouts;
pub(crate) use self::topology::servers::Origin;
pub use self::topology::servers::Servers;
#[cfg(feature = "__admin")]
pub use self::topology::servers::seeds::Seeds;
pub(crate) use self::wire::call::{Call, in_millis};
pub(crate) use self::wire::script::{Script, script};
pub(crate) use self::wire::value::Unexpected;
#[cfg(any(test, fuzzing))]
pub(crate) use self::{topology::servers::properties::url, wire::names::properties::key};

/// Redis: one server, the one that is the primary, or a cluster.
pub(crate) struct RedisStore {
    pub(super) topology: Topology,
    pub(super) common: Common,
    /// None where it is not known where messages come from.
    inbox: Option<Inbox>,
}

impl RedisStore {
    /// Connects when it is asked first.
    pub(crate) fn open(origin: Origin, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts, origin.outages());
        let (topology, messages) = origin.open(&common);
        Self::new(topology, Some(messages), common)
    }

    /// All commands go over a connection of `commands`. Messages come from the origin; without one there is no inbox.
    pub(crate) fn over(
        commands: Arc<dyn Source>,
        origin: Option<Origin>,
        timeouts: Timeouts,
    ) -> Self {
        let common = Common::new(timeouts, Outages::of_one());
        let messages = origin.map(|origin| origin.open(&common).1);
        let topology = Topology::one(commands, common.clone());
        Self::new(topology, messages, common)
    }

    fn new(topology: Topology, messages: Option<Arc<dyn Source>>, common: Common) -> Self {
        let inbox = messages.map(|source| {
            let topology = topology.clone();
            let lost = Arc::new(move || topology.messages_lost());
            Inbox::new(source, common.timeouts, lost)
        });
        Self {
            topology,
            common,
            inbox,
        }
    }

    /// Runs one call of a script, and reads its reply.
    pub(crate) fn ask<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected> + Send + 'static,
    ) -> Answer<T> {
        self.topology.ask(call, read)
    }

    pub(crate) fn connect(&self) -> Answer<()> {
        let topology = self.topology.clone();
        Box::pin(async move { topology.connect().await })
    }

    pub(crate) fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
        epoch: u64,
    ) -> Answer<Confirmation> {
        let (topology, key) = (self.topology.clone(), key.clone());
        Box::pin(async move { topology.confirm(&key, replicas, within, epoch).await })
    }

    pub(crate) fn scan(&self, scan: Scan) -> Answer<Scanned> {
        let (topology, common) = (self.topology.clone(), self.common.clone());
        Box::pin(scan::scan(topology, common, scan))
    }

    /// Whether the server has refused a request because of its key alone.
    pub(crate) fn refuses_key(error: &StoreError) -> bool {
        let cause = error.source().and_then(|it| it.downcast_ref());
        cause.is_some_and(|DriverError(error)| failure::refuses_key(error))
    }

    pub(crate) fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let channel = self.inbox.as_ref();
        channel.is_some_and(|channel| channel.open(inbox, listener))
    }

    pub(crate) fn watch(&self, holders: Weak<dyn Holders>) {
        // There is one for each `Locks`.
        let _ = self.common.watched.set(holders);
    }

    pub(crate) fn check_subscription(&self) {
        self.inbox.iter().for_each(Inbox::check_subscription);
    }

    pub(crate) fn close(&self) {
        self.topology.close();
        self.inbox.iter().for_each(Inbox::close);
    }
}
