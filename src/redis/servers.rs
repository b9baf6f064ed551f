//! The servers to which calls go: one at a time, or those of a cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::cluster::Cluster;
use super::common::Common;
use super::connector::Connector;
use super::introduction;
use super::script::Call;
use super::source::Source;
use crate::base::error::{AnswerFuture, StoreError};
use crate::base::key::slot_of;
use crate::base::option_types::Confirmation;

/// The servers to which requests go.
#[derive(Clone)]
pub(crate) enum Servers {
    One(Arc<Connector>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// A server that has all locks. It may be another server after each connection.
    pub(crate) fn one(source: Arc<dyn Source>, common: Common) -> Self {
        Self::One(Arc::new(Connector::new(source, common, None)))
    }

    /// Connects, unless there is a connection.
    pub(crate) fn connect(&self) -> AnswerFuture<()> {
        match self.clone() {
            Self::One(connector) => Box::pin(async move { connector.connection().await.map(drop) }),
            Self::Cluster(cluster) => Box::pin(async move { cluster.connect().await }),
        }
    }

    /// Sends a call to the server that has its keys. It is sent once, except that a redirection is followed.
    pub(crate) async fn ask(&self, call: &Call) -> Result<Value, StoreError> {
        match self {
            Self::One(connector) => connector.ask(call).await,
            Self::Cluster(cluster) => cluster.ask(call).await,
        }
    }

    /// Waits until this number of replicas has what the server of a slot executed in this epoch of the slot. `beside` is
    /// a key of the slot, or its hash tag in braces.
    pub(crate) fn confirm(
        &self,
        beside: &str,
        replicas: u32,
        within: Duration,
        epoch: u64,
    ) -> AnswerFuture<Confirmation> {
        let (servers, beside) = (self.clone(), beside.to_owned());
        Box::pin(async move {
            let slot = || slot_of(beside.as_bytes());
            let connector = servers.at(slot, Arc::clone);
            let present = connector.and_then(|it| Some((it.present()?, it)));
            let has_epoch = || servers.epoch(slot) == epoch;
            let Some((connection, connector)) = present.filter(|_| has_epoch()) else {
                return Ok(Confirmation::Unknown);
            };
            let confirmation = connection
                .confirmer
                .confirm(&beside, replicas, within)
                .await;
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

    /// Calls `ask` with the connector of the server that has a slot. `None` if that server is not known.
    pub(crate) fn at<T>(
        &self,
        slot: impl FnOnce() -> u16,
        ask: impl FnOnce(&Arc<Connector>) -> T,
    ) -> Option<T> {
        match self {
            Self::One(connector) => Some(ask(connector)),
            Self::Cluster(cluster) => cluster.owner(slot()).map(|it| ask(&it.connector)),
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

    /// A number that changes whenever another connection, or another server, responds for a slot.
    pub(crate) fn epoch(&self, slot: impl FnOnce() -> u16) -> u64 {
        match self {
            Self::One(connector) => connector.generation(),
            Self::Cluster(cluster) => cluster.epoch(slot()),
        }
    }

    /// The connector of a server that sends the messages of all.
    pub(crate) async fn any_connector(&self) -> Result<Arc<Connector>, StoreError> {
        match self {
            Self::One(connector) => Ok(Arc::clone(connector)),
            Self::Cluster(cluster) => cluster.any_connector().await,
        }
    }

    /// Describes this process to the server that has the description. If it is not known or does not respond, the next
    /// connection does it.
    pub(crate) async fn introduce(&self) {
        if let Some(connector) = self.at(introduction::slot, Arc::clone) {
            connector.introduce_soon().await;
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::One(connector) => connector.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }
}
