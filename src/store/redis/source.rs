//! Where connections come from: for commands and for the inbox.

use std::{error::Error, sync::Arc, time::Duration};

use deadpool_redis::{
    Pool, PoolError,
    redis::{AsyncConnectionConfig, Client, RedisError, aio::MultiplexedConnection},
};

use tokio::task::{AbortHandle, JoinHandle};

use super::{
    address::Address,
    cluster::Cluster,
    pushes::Receiver,
    script::{self, DriverError},
    sentinels::Sentinels,
};
use crate::base::{
    error::{Effect, StoreError},
    timer::{Elapsed, timeout},
};

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// Where connections come from.
#[derive(Clone)]
pub(super) enum Source {
    /// The server at an address.
    Server(Arc<Address>),
    /// A pool of the caller. Its connections do not report their end, and have timers of their own, which must not be
    /// polled by another runtime than the one that made them.
    Pool(Pool),
    /// Whichever server the sentinels say is the primary.
    Primary(Arc<Sentinels>),
    /// The servers of a cluster: for messages, whichever of them.
    Cluster(Arc<Cluster>),
}

/// A connection that was made just now.
pub(super) struct Opened {
    pub(super) driver: MultiplexedConnection,
    /// Where it leads, for messages; never the password.
    pub(super) endpoint: Arc<str>,
    /// What gives it up once it leads to the wrong server.
    pub(super) following: Option<Following>,
}

/// A task that ends with the connection that it is about.
#[derive(Debug)]
pub(super) struct Following(AbortHandle);

impl Following {
    pub(super) fn new(task: &JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the driver limits the time of each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Each request has a limit of its own.
    None,
    Response,
}

impl Source {
    /// Whether the next connection may lead to another server.
    pub(super) fn may_move(&self) -> bool {
        matches!(self, Self::Primary(_))
    }

    pub(super) fn is_pool(&self) -> bool {
        matches!(self, Self::Pool(_))
    }

    /// What connections are asked for, for messages.
    pub(super) fn endpoint(&self) -> Arc<str> {
        match self {
            Self::Server(address) => Arc::clone(&address.endpoint),
            Self::Pool(_) => Arc::from("the given pool"),
            Self::Primary(sentinels) => sentinels.endpoint(),
            Self::Cluster(cluster) => cluster.endpoint(),
        }
    }

    /// Makes a connection. What the server sends over it unasked goes to `receiver`, but for that of a pool.
    pub(super) async fn open(
        &self,
        timeouts: Timeouts,
        limit: Limit,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        let within = timeouts.connect;
        let opening = async {
            match self {
                Self::Server(address) => open(address, timeouts, limit, receiver).await,
                Self::Pool(pool) => {
                    let pooled = pool.get().await.map_err(|error| self.pool_failed(error))?;
                    let mut driver = deadpool_redis::Connection::take(pooled);
                    // The limit is our own: this one only ends the task that waits for the answer.
                    driver.set_response_timeout(timeouts.response.saturating_mul(2));
                    Ok(Opened {
                        driver,
                        endpoint: self.endpoint(),
                        following: None,
                    })
                }
                Self::Primary(sentinels) => sentinels.open(timeouts, limit, receiver).await,
                Self::Cluster(cluster) => cluster.open_any(timeouts, limit, receiver).await,
            }
        };
        match timeout(within, opening).await {
            Ok(opened) => opened,
            Err(Elapsed) => {
                let cause = format!("no connection within {within:?}");
                Err(self.failed(Effect::None, cause))
            }
        }
    }

    fn pool_failed(&self, error: PoolError) -> StoreError {
        match error {
            PoolError::Backend(error) => refused(&self.endpoint(), error),
            PoolError::Closed => self.failed(Effect::Refused, error.to_string()),
            error => self.failed(Effect::None, error.to_string()),
        }
    }

    fn failed(&self, effect: Effect, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::new("connect", &self.endpoint(), effect, cause)
    }
}

/// Connects to one server.
pub(super) async fn open(
    address: &Address,
    timeouts: Timeouts,
    limit: Limit,
    receiver: &Receiver,
) -> Result<Opened, StoreError> {
    let response = (limit == Limit::Response).then_some(timeouts.response);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeouts.connect))
        .set_response_timeout(response)
        .set_push_sender(receiver.push_sender());
    let connecting = async {
        let client = Client::open(address.info.clone())?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        connecting.await
    };
    let endpoint = &address.endpoint;
    let driver = connecting.await.map_err(|error| refused(endpoint, error))?;
    Ok(Opened {
        driver,
        endpoint: Arc::clone(endpoint),
        following: None,
    })
}

/// A connection that could not be made has executed nothing, whatever the error.
fn refused(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = match script::effect(&error) {
        Effect::Refused => Effect::Refused,
        Effect::None | Effect::Unknown => Effect::None,
    };
    StoreError::new("connect", endpoint, effect, DriverError(error))
}
