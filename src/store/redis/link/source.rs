//! The source of connections, and the receiver of what the server sends over them unasked. This is the messages of its
//! channels, and the report that the connection has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{PushInfo, PushKind, RedisError};

use super::address::Address;
use super::messages::Messages;
use super::protocol::connect;
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::timer::{Elapsed, timeout};
use crate::store::redis::wire::failure::{self, DriverError};
use crate::store::redis::wire::mistake::mistake;
use crate::store::redis::wire::reply::{Message, pushed};

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

    /// Opens a connection. What the server sends over it unasked goes to the receiver, unless the connection was [made
    /// elsewhere](Opened::made_elsewhere).
    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening;

    /// Doubts that the server is still the right one, because it has no replicas.
    fn doubt(&self) {}
}

/// The functions that are called for events of a connection, in the task that reads it.
#[derive(Clone)]
pub(crate) struct Receiver {
    /// Called for a message.
    pub(crate) message: Arc<dyn Fn(Message) + Send + Sync>,
    /// Called when the connection has ended.
    pub(crate) ended: Arc<dyn Fn() + Send + Sync>,
    /// Called when another server now responds in the place of its server.
    pub(crate) moved: Arc<dyn Fn() + Send + Sync>,
}

impl Receiver {
    /// A receiver that ignores everything.
    pub(crate) fn deaf() -> Self {
        Self {
            message: Arc::new(drop),
            ended: Arc::new(|| {}),
            moved: Arc::new(|| {}),
        }
    }

    /// Passes on the reports of the driver.
    pub(crate) fn push_sender(
        &self,
    ) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
        let Self { message, ended, .. } = self.clone();
        move |push| {
            match push.kind {
                PushKind::Message | PushKind::PMessage => {
                    pushed(&push).into_iter().for_each(|it| message(it))
                }
                PushKind::Disconnection => ended(),
                _ => {}
            }
            Ok(())
        }
    }
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<Opened, StoreError>> + Send>>;

/// Opens a connection within the connect timeout.
pub(crate) async fn open(
    source: &Arc<dyn Source>,
    timeouts: Timeouts,
    receiver: Receiver,
) -> Result<Opened, StoreError> {
    let within = timeouts.connect;
    let opening = Arc::clone(source).open(timeouts, receiver);
    timeout(within, opening).await.unwrap_or_else(|Elapsed| {
        let (endpoint, effect) = (source.endpoint(), Effect::None);
        let cause = format!("no connection within {within:?}");
        Err(StoreError::new("connect", &endpoint, effect, cause))
    })
}

/// A connection that was just opened.
pub(crate) struct Opened {
    pub(crate) driver: MultiplexedConnection,
    /// The way in which messages arrive from its server.
    pub(crate) messages: Messages,
    /// The name of its server in messages, without the password.
    pub(crate) endpoint: Arc<str>,
    /// Opens further connections to the same server.
    pub(crate) again: Arc<dyn Source>,
    /// The task that gives it up when it leads to the wrong server.
    pub(crate) following: Option<AbortOnDrop>,
    /// Whether it was opened by this runtime, without timers, and for the receiver.
    pub(crate) is_own: bool,
}

impl Opened {
    /// A connection that this runtime has opened, without timers, and for the receiver.
    fn made_here(
        driver: MultiplexedConnection,
        messages: Messages,
        endpoint: Arc<str>,
        again: Arc<dyn Source>,
    ) -> Self {
        Self {
            driver,
            messages,
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
        // No messages are subscribed to over it.
        let messages = Messages::Beside(driver.clone());
        Self {
            is_own: false,
            ..Self::made_here(driver, messages, endpoint, again)
        }
    }
}

/// One server.
impl Source for Address {
    fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint)
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening {
        Box::pin(async move {
            let connecting = connect(&self, timeouts.connect, receiver.push_sender());
            let connected = connecting.await;
            let (driver, messages) = connected.map_err(|error| refused(&self.endpoint, error))?;
            let endpoint = Arc::clone(&self.endpoint);
            Ok(Opened::made_here(driver, messages, endpoint, self))
        })
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
