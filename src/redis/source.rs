//! The source of connections, for commands and for messages.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use redis::aio::{MultiplexedConnection, PubSub};

use super::address::Address;
use super::driver::{DriverTask, connect, connect_for_messages};
use crate::base::error::{Effect, StoreError};
use crate::base::timer::{Elapsed, timeout};
use crate::redis::failure::{self, DriverError};
use crate::redis::mistake::mistake;

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

    /// Opens a connection for commands.
    fn open(self: Arc<Self>, timeouts: Timeouts) -> Opening;

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
) -> Result<Opened, StoreError> {
    let opening = Arc::clone(source).open(timeouts);
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
    /// Its task. `None` if other code has opened it, on any runtime: then its end is not reported, and only the runtime
    /// that made its timers may poll them.
    pub(crate) task: Option<DriverTask>,
    /// Ends when the connection leads to the wrong server.
    pub(crate) moved: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// One server.
impl Source for Address {
    fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint)
    }

    fn open(self: Arc<Self>, timeouts: Timeouts) -> Opening {
        Box::pin(async move {
            let connected = connect(&self, timeouts.connect).await;
            let (driver, task) = connected.map_err(|error| refused(&self.endpoint, error))?;
            Ok(Opened {
                driver,
                endpoint: Arc::clone(&self.endpoint),
                again: self,
                task: Some(task),
                moved: Box::pin(pending()),
            })
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
