//! The source of connections, for commands and for messages.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use redis::aio::{MultiplexedConnection, PubSub};

use super::address::Address;
pub(crate) use super::protocol::Ended;
use super::protocol::{connect, connect_for_messages};
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::timer::{Elapsed, timeout};
use crate::store::redis::wire::failure::{self, DriverError};
use crate::store::redis::wire::mistake::mistake;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// The source of connections to one place.
pub(crate) trait Source: Send + Sync {
    /// The name of the servers in messages, without the password.
    fn endpoint(&self) -> Arc<str>;

    /// Opens a connection for commands. `ended` is called when it has ended, as far as that is reported.
    fn open(self: Arc<Self>, timeouts: Timeouts, ended: Ended) -> Opening;

    /// Opens a connection for messages. `None` if there are none.
    fn open_messages(&self) -> Option<OpeningMessages> {
        None
    }

    /// Doubts that the server is still the right one, because it has no replicas.
    fn doubt(&self) {}
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<Opened, StoreError>> + Send>>;

pub(crate) type OpeningMessages = Pin<Box<dyn Future<Output = Result<PubSub, StoreError>> + Send>>;

/// Opens a connection within the connect timeout.
pub(crate) async fn open(
    source: &Arc<dyn Source>,
    timeouts: Timeouts,
    ended: Ended,
) -> Result<Opened, StoreError> {
    let opening = Arc::clone(source).open(timeouts, ended);
    in_time(source, timeouts, opening).await
}

async fn in_time<T>(
    source: &Arc<dyn Source>,
    timeouts: Timeouts,
    opening: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let within = timeouts.connect;
    timeout(within, opening).await.unwrap_or_else(|Elapsed| {
        let (endpoint, effect) = (source.endpoint(), Effect::None);
        let cause = format!("no connection within {within:?}");
        Err(StoreError::new("connect", &endpoint, effect, cause))
    })
}

/// Opens a connection for messages within the connect timeout.
pub(crate) async fn open_messages(
    source: &Arc<dyn Source>,
    timeouts: Timeouts,
) -> Result<PubSub, StoreError> {
    let opening = source.open_messages();
    let connecting = async {
        match opening {
            Some(opening) => opening.await,
            None => pending().await,
        }
    };
    in_time(source, timeouts, connecting).await
}

/// A connection that was just opened.
pub(crate) struct Opened {
    pub(crate) driver: MultiplexedConnection,
    /// The name of its server in messages, without the password.
    pub(crate) endpoint: Arc<str>,
    /// Opens further connections to the same server.
    pub(crate) again: Arc<dyn Source>,
    /// The task that gives it up when it leads to the wrong server.
    pub(crate) following: Option<AbortOnDrop>,
    /// Whether it was opened by this runtime, without timers, and with its end reported.
    pub(crate) is_own: bool,
}

impl Opened {
    /// A connection that this runtime has opened, without timers, and with its end reported.
    fn made_here(
        driver: MultiplexedConnection,
        endpoint: Arc<str>,
        again: Arc<dyn Source>,
    ) -> Self {
        Self {
            driver,
            endpoint,
            again,
            following: None,
            is_own: true,
        }
    }

    /// A connection that other code has opened, on any runtime. It does not report its end. Only the runtime that made
    /// its timers may poll them.
    #[cfg(feature = "pool")]
    pub(crate) fn made_elsewhere(
        driver: MultiplexedConnection,
        endpoint: Arc<str>,
        again: Arc<dyn Source>,
    ) -> Self {
        Self {
            is_own: false,
            ..Self::made_here(driver, endpoint, again)
        }
    }
}

/// One server.
impl Source for Address {
    fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint)
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, ended: Ended) -> Opening {
        Box::pin(async move {
            let connected = connect(&self, timeouts.connect, ended).await;
            let driver = connected.map_err(|error| refused(&self.endpoint, error))?;
            let endpoint = Arc::clone(&self.endpoint);
            Ok(Opened::made_here(driver, endpoint, self))
        })
    }

    fn open_messages(&self) -> Option<OpeningMessages> {
        let address = self.clone();
        Some(Box::pin(async move {
            let connected = connect_for_messages(&address).await;
            connected.map_err(|error| refused(&address.endpoint, error))
        }))
    }
}

/// The error of a connection that could not be opened. Nothing was executed, whatever the error says.
pub(crate) fn refused(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = failure::effect(&error);
    let mistake = mistake(&error, effect);
    let effect = if effect.is_refused() {
        Effect::TurnedAway
    } else {
        Effect::None
    };
    let refused = match failure::closed_at_once(&error) {
        Some(cause) => StoreError::new("connect", endpoint, effect, cause),
        None => StoreError::new("connect", endpoint, effect, DriverError(error)),
    };
    refused.with_mistake(mistake)
}
