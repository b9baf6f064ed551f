//! The servers to which calls go: one at a time, or those of a cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::connector::Connector;
use super::context::ConnectorContext;
use super::script::Call;
use super::self_description;
use super::sentinels::Sentinels;
use super::source::{Address, HostPort, Source};
use crate::base::error::{StoreError, StoreFuture};
use crate::base::key::slot_of;
use crate::base::options::Confirmation;
use crate::base::sync::Mutex;

/// The servers to connect to. Nothing is connected yet.
pub(crate) struct ServerSpec {
    /// The address of one server. The others are connected to in the same way.
    pub(crate) server: Address,
    pub(crate) topology: Topology,
}

/// What the servers are.
#[allow(clippy::large_enum_variant, reason = "there is one for each `Locks`")]
pub(crate) enum Topology {
    One,
    Sentinels {
        /// The name of the primary.
        primary: String,
        /// The address of one sentinel.
        sentinel: Address,
        seeds: Vec<HostPort>,
    },
    Cluster {
        seeds: Vec<HostPort>,
    },
}

/// The servers to which requests go.
#[derive(Clone)]
pub(crate) enum Servers {
    /// A server that has all locks. It may be another server after each connection.
    One(Arc<Connector>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// The servers of a URL, which are not connected yet.
    pub(crate) fn new(spec: ServerSpec, context: Arc<ConnectorContext>) -> Self {
        let ServerSpec { server, topology } = spec;
        match topology {
            Topology::One => Self::from_source(Arc::new(server), context),
            // To a connector the sentinels are a source of connections, like one server.
            Topology::Sentinels {
                primary,
                sentinel,
                seeds,
            } => {
                let sentinels = Sentinels {
                    primary,
                    sentinel,
                    server,
                    seeds,
                    learned: Mutex::default(),
                    doubts: watch::Sender::default(),
                };
                Self::from_source(Arc::new(sentinels), context)
            }
            Topology::Cluster { seeds } => Self::Cluster(Cluster::new(server, seeds, context)),
        }
    }

    /// The server to which a source connects.
    pub(crate) fn from_source(source: Arc<dyn Source>, context: Arc<ConnectorContext>) -> Self {
        Self::One(Connector::new(source, context, None))
    }

    /// Connects, unless there is a connection.
    pub(crate) async fn connect(self) -> Result<(), StoreError> {
        match self {
            Self::One(connector) => connector.connection().await.map(drop),
            Self::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// Sends a call to the server that has its keys. It is sent once, except that a redirection is followed.
    pub(crate) async fn ask(&self, call: &Call) -> Result<Value, StoreError> {
        match self {
            Self::One(connector) => connector.ask(call).await,
            // Boxed, because it is larger, and a request to one server would have room for it as well.
            Self::Cluster(cluster) => Box::pin(cluster.ask(call)).await,
        }
    }

    /// Waits until this number of replicas has what the server of a slot executed in this generation of the slot.
    /// `beside` is a key of the slot, or its hash tag in braces.
    pub(crate) fn confirm(
        &self,
        beside: &str,
        replicas: u32,
        within: Duration,
        generation: u64,
    ) -> StoreFuture<Confirmation> {
        let (servers, beside) = (self.clone(), beside.to_owned());
        Box::pin(async move {
            let slot = || slot_of(beside.as_bytes());
            // What was executed in an earlier generation may be lost, and no replica can confirm it.
            let is_present = || servers.generation_of(slot) == generation;
            let connector = servers.with_connector(slot, Arc::clone);
            // No connection is opened for this: what was executed was sent over one that is lost then.
            let connected = connector.and_then(|it| Some((it.current()?, it)));
            let Some((connection, connector)) = connected.filter(|_| is_present()) else {
                return Ok(Confirmation::Unknown);
            };
            let confirming = connection.confirmer.confirm(&beside, replicas, within);
            let confirmation = confirming.await;
            if matches!(confirmation, Ok(Confirmation::Unknown)) {
                // The next connection finds out which server it is, and the holds are verified.
                connector.give_up(connection.number);
            }
            // Asked again: if the generation has changed meanwhile, the confirmation may be that of another server.
            if is_present() {
                confirmation
            } else {
                Ok(Confirmation::Unknown)
            }
        })
    }

    /// Calls `call` with the connector of the server that has a slot. `None` if that server is not known.
    pub(crate) fn with_connector<T>(
        &self,
        slot: impl FnOnce() -> u16,
        call: impl FnOnce(&Arc<Connector>) -> T,
    ) -> Option<T> {
        match self {
            Self::One(connector) => Some(call(connector)),
            Self::Cluster(cluster) => cluster.owner(slot()).map(|it| call(&it.connector)),
        }
    }

    /// Returns whether a request about this slot can be sent immediately.
    pub(crate) fn is_connected(&self, slot: impl FnOnce() -> u16) -> bool {
        self.with_connector(slot, |it| it.is_connected()) == Some(true)
    }

    /// The property that the keys of this slot share with the other keys that one script may name.
    pub(crate) fn script_group(&self, slot: impl FnOnce() -> u16) -> Option<u16> {
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
    pub(crate) fn generation_of(&self, slot: impl FnOnce() -> u16) -> u64 {
        match self {
            Self::One(connector) => connector.generation(),
            Self::Cluster(cluster) => cluster.generation_of(slot()),
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
    pub(crate) async fn describe(&self) {
        if let Some(connector) = self.with_connector(self_description::slot, Arc::clone) {
            connector.describe_soon().await;
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::One(connector) => connector.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }
}
