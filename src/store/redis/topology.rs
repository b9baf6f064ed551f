//! The servers of one store: one at a time, or those of a cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use self::cluster::Cluster;
use super::connect::Connector;
use super::connect::common::{Common, Role};
use super::link::outages::Outages;
use super::link::source::Source;
use super::wire::call::Call;
use super::wire::value::Unexpected;
use crate::base::error::{Answer, StoreError};
use crate::base::key::LockKey;
use crate::base::option_types::{Confirmation, Replicas};

mod ask_most;
mod cluster;
mod sentinels;
pub(super) mod servers;

/// Where requests go.
#[derive(Clone)]
pub(crate) enum Topology {
    One(Arc<Connector>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// One server at a time.
    pub(crate) fn one(source: Arc<dyn Source>, common: Common) -> Self {
        let role = TheOne(Arc::clone(&common.outages));
        Self::One(Arc::new(Connector::new(source, common, role)))
    }

    /// Connects, unless a connection is there already.
    pub(crate) async fn connect(&self) -> Result<(), StoreError> {
        match self {
            Self::One(connector) => connector.connection().await.map(drop),
            Self::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// Runs one script and reads its reply.
    pub(crate) fn ask<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected> + Send + 'static,
    ) -> Answer<T> {
        // Each of its own size: the way to one server of a cluster has more on it.
        match self {
            Self::One(connector) => Box::pin(Arc::clone(connector).run(call, read)),
            Self::Cluster(cluster) => Box::pin(Arc::clone(cluster).run(call, read)),
        }
    }

    /// Waits until so many replicas have what was executed over the connection for a lock while it had this epoch.
    pub(crate) async fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
        epoch: u64,
    ) -> Result<Confirmation, StoreError> {
        let connector = self.at(key, Arc::clone);
        let present = connector.and_then(|it| Some((it.present()?, it)));
        let Some((connection, connector)) = present.filter(|_| self.epoch(key) == epoch) else {
            return Ok(Confirmation::Unknown);
        };
        let confirmation = connection.confirmer.confirm(key, replicas, within).await;
        if connection.confirmer.is_another() {
            // The next one says which it is, and verifies what was held.
            connector.discard(connection.number);
        }
        if self.epoch(key) == epoch {
            confirmation
        } else {
            Ok(Confirmation::Unknown)
        }
    }

    /// Works with the connector of the server that answers for a lock, if that is known.
    fn at<T>(&self, key: &LockKey, work: impl FnOnce(&Arc<Connector>) -> T) -> Option<T> {
        match self {
            Self::One(connector) => Some(work(connector)),
            Self::Cluster(cluster) => cluster.connector(key.slot()).as_ref().map(work),
        }
    }

    pub(crate) fn is_connected(&self, key: &LockKey) -> bool {
        self.at(key, |it| it.is_connected()).unwrap_or_default()
    }

    /// Tells the server that answers for a lock from the others, as far as it is known.
    pub(crate) fn server_of(&self, key: &LockKey) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Cluster(cluster) => cluster.server_of(key.slot()),
        }
    }

    /// Whether one script may have keys of both locks.
    pub(crate) fn spans(&self, one: &LockKey, other: &LockKey) -> bool {
        matches!(self, Self::One(_)) || one.slot() == other.slot()
    }

    /// What connections are asked for; never the password.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        match self {
            Self::One(connector) => connector.endpoint(),
            Self::Cluster(cluster) => cluster.endpoint(),
        }
    }

    /// How long a request about a lock that is sent now may take.
    pub(crate) fn answers_within(&self, key: &LockKey) -> Duration {
        let within = self.at(key, |it| it.answers_within());
        within.unwrap_or(Duration::MAX)
    }

    /// Changes whenever another connection, or another server, answers for a lock.
    pub(crate) fn epoch(&self, key: &LockKey) -> u64 {
        match self {
            Self::One(connector) => connector.epoch(),
            Self::Cluster(cluster) => cluster.epoch(key.slot()),
        }
    }

    /// Changes with every new connection over which requests go.
    pub(crate) fn epochs(&self) -> u64 {
        match self {
            Self::One(connector) => connector.epoch(),
            Self::Cluster(cluster) => cluster.epochs(),
        }
    }

    /// Forgets the connection for a lock if it owes the answer to a request that was sent at `since`.
    pub(crate) fn suspect(&self, key: &LockKey, since: Instant) {
        self.at(key, |it| it.suspect(since));
    }

    /// The connection for messages was lost.
    pub(crate) fn messages_lost(&self) {
        match self {
            Self::One(connector) => connector.lose(),
            // The server of the connection is told by it.
            Self::Cluster(_) => {}
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::One(connector) => connector.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }
}

/// A server that has all locks.
struct TheOne(Arc<Outages>);

impl Role for TheOne {
    fn lost(&self) {
        self.0.everywhere();
    }

    fn has(&self, _slot: u16) -> bool {
        true
    }
}
