//! The servers of one store: one at a time, or those of a cluster.

use std::{sync::Arc, time::Duration};

use redis::Value;
use tokio::time::Instant;

use self::cluster::Cluster;
use super::{
    connect::{
        Connector,
        common::{Common, Role},
    },
    link::{outages::Outages, source::Source},
    wire::{call::Call, value::Unexpected},
};
use crate::base::{
    confirm::{Confirmation, Replicas},
    error::StoreError,
    key::LockKey,
    store_error::Answer,
};

mod ask_most;
mod cluster;
mod sentinels;
pub(super) mod servers;

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    One(Arc<Connector>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// One server at a time.
    pub(super) fn one(source: Arc<dyn Source>, common: Common) -> Self {
        let role = TheOne(Arc::clone(&common.outages));
        Self::One(Arc::new(Connector::new(source, common, role)))
    }

    /// Connects, unless a connection is there already.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        match self {
            Self::One(connector) => connector.connection().await.map(drop),
            Self::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// Runs one script and reads its reply.
    pub(super) fn ask<T: 'static>(
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
    pub(super) async fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
        epoch: u64,
    ) -> Result<Confirmation, StoreError> {
        let connector = self.connector(key);
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

    /// The connector of the server that answers for a lock, as far as it is known.
    pub(super) fn connector(&self, key: &LockKey) -> Option<Arc<Connector>> {
        match self {
            Self::One(connector) => Some(Arc::clone(connector)),
            Self::Cluster(cluster) => cluster.connector(key.slot()),
        }
    }

    pub(super) fn is_connected(&self, key: &LockKey) -> bool {
        self.connector(key).is_some_and(|it| it.is_connected())
    }

    /// Tells the server that answers for a lock from the others, as far as it is known.
    pub(super) fn server_of(&self, key: &LockKey) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Cluster(cluster) => cluster.server_of(key.slot()),
        }
    }

    /// Whether one script may have keys of several slots.
    pub(super) fn spans_slots(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// How long a request about a lock that is sent now may take.
    pub(super) fn answers_within(&self, key: &LockKey) -> Duration {
        match self {
            Self::One(connector) => connector.answers_within(),
            Self::Cluster(cluster) => cluster.answers_within(key.slot()),
        }
    }

    /// Changes whenever another connection, or another server, answers for a lock.
    pub(super) fn epoch(&self, key: &LockKey) -> u64 {
        match self {
            Self::One(connector) => connector.epoch(),
            Self::Cluster(cluster) => cluster.epoch(key.slot()),
        }
    }

    /// Changes with every new connection over which requests go.
    pub(super) fn epochs(&self) -> u64 {
        match self {
            Self::One(connector) => connector.epoch(),
            Self::Cluster(cluster) => cluster.epochs(),
        }
    }

    /// Forgets the connection for a lock if it owes the answer to a request that was sent at `since`.
    pub(super) fn suspect(&self, key: &LockKey, since: Instant) {
        match self {
            Self::One(connector) => connector.suspect(since),
            Self::Cluster(cluster) => cluster.suspect(key.slot(), since),
        }
    }

    /// The connection for messages was lost.
    pub(super) fn messages_lost(&self) {
        match self {
            Self::One(connector) => connector.lose(),
            // The server of the connection is told by it.
            Self::Cluster(_) => {}
        }
    }

    pub(super) fn close(&self) {
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
