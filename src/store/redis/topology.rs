//! The servers of one store: one at a time, or those of a cluster.

use std::sync::Arc;
use std::time::Duration;

use self::cluster::Cluster;
use super::connect::Connector;
use super::connect::common::{Common, OnlyServer};
use super::link::source::Source;
use super::wire::question::Question;
use crate::base::error::{AnswerFuture, StoreError};
use crate::base::key::LockKey;
use crate::base::option_types::Confirmation;

mod ask_most;
mod cluster;
mod sentinels;
pub(super) mod servers;

/// The servers to which requests go.
#[derive(Clone)]
pub(crate) enum Topology {
    One(Arc<Connector>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// A server that has all locks. It may be another server after each connection.
    pub(crate) fn one(source: Arc<dyn Source>, common: Common) -> Self {
        Self::One(Arc::new(Connector::new(source, common, OnlyServer)))
    }

    /// Connects, unless there is a connection.
    pub(crate) fn connect(&self) -> AnswerFuture<()> {
        match self.clone() {
            Self::One(connector) => Box::pin(async move { connector.connection().await.map(drop) }),
            Self::Cluster(cluster) => Box::pin(async move { cluster.connect().await }),
        }
    }

    /// Sends a question to the server that has its key.
    pub(crate) fn ask<Q>(&self, question: Q) -> AnswerFuture<Q::Reply>
    where
        Q: Question<Reply: 'static> + Send + Sync + 'static,
    {
        // Each future has its own size: that of a cluster is larger. The block has the question, and the functions that
        // it calls borrow it. An async function would store its arguments twice.
        match self.clone() {
            Self::One(connector) => Box::pin(async move { connector.run(&question).await }),
            Self::Cluster(cluster) => Box::pin(async move { cluster.run(&question).await }),
        }
    }

    /// Waits until this number of replicas has what the server of a lock executed in this epoch of the lock.
    pub(crate) fn confirm(
        &self,
        key: &LockKey,
        replicas: u32,
        within: Duration,
        epoch: u64,
    ) -> AnswerFuture<Confirmation> {
        let (topology, key) = (self.clone(), key.clone());
        Box::pin(async move {
            let connector = topology.at(&key, Arc::clone);
            let present = connector.and_then(|it| Some((it.present()?, it)));
            let has_epoch = || topology.epoch(&key) == epoch;
            let Some((connection, connector)) = present.filter(|_| has_epoch()) else {
                return Ok(Confirmation::Unknown);
            };
            let confirmation = connection.confirmer.confirm(&key, replicas, within).await;
            if matches!(confirmation, Ok(Confirmation::Unknown)) {
                // The next connection finds out which server it is, and the holds are verified.
                connector.give_up(connection.number);
            }
            if has_epoch() {
                confirmation
            } else {
                Ok(Confirmation::Unknown)
            }
        })
    }

    /// Calls `ask` with the connector of the server that has a lock. `None` if that server is not known.
    pub(crate) fn at<T>(&self, key: &LockKey, ask: impl FnOnce(&Arc<Connector>) -> T) -> Option<T> {
        match self {
            Self::One(connector) => Some(ask(connector)),
            Self::Cluster(cluster) => cluster.owner(key.slot()).map(|it| ask(&it.connector)),
        }
    }

    /// The property that the keys of this slot share with the other keys that one script may name.
    pub(crate) fn span(&self, slot: impl FnOnce() -> u16) -> Option<u16> {
        matches!(self, Self::Cluster(_)).then(slot)
    }

    /// The name of the servers in messages, without the password.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        match self {
            Self::One(connector) => connector.endpoint(),
            Self::Cluster(cluster) => cluster.endpoint(),
        }
    }

    /// A number that changes whenever another connection, or another server, responds for a lock.
    pub(crate) fn epoch(&self, key: &LockKey) -> u64 {
        match self {
            Self::One(connector) => connector.generation(),
            Self::Cluster(cluster) => cluster.epoch(key.slot()),
        }
    }

    /// The connector of a server that sends the messages of all.
    pub(crate) async fn any_connector(&self) -> Result<Arc<Connector>, StoreError> {
        match self {
            Self::One(connector) => Ok(Arc::clone(connector)),
            Self::Cluster(cluster) => cluster.any_connector().await,
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::One(connector) => connector.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }
}
