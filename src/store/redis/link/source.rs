//! Where connections come from, and the receiver of what the server sends over them unasked: the messages of its
//! channels, and the report that the connection has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, cmd};

use super::abort_on_drop::AbortOnDrop;
use super::address::Address;
use crate::base::error::{Effect, StoreError};
use crate::base::process;
use crate::base::timer::{Elapsed, timeout};
use crate::store::redis::wire::failure::{self, DriverError};
use crate::store::redis::wire::reply::{Message, pushed};

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// The room for requests that wait to be sent: more than there ever are. A request that had to wait for room, and was not
/// polled when it got some, would keep the room from all requests behind it.
const UNSENT: usize = 1 << 20;

/// Where connections come from.
pub(crate) trait Source: Send + Sync {
    /// The name of the servers in messages, without the password.
    fn endpoint(&self) -> Arc<str>;

    /// Makes a connection. What the server sends over it unasked goes to the receiver, unless the
    /// connection was [made elsewhere](Opened::made_elsewhere).
    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening;

    /// Doubts that the server is still the right one: it has no replicas.
    fn doubt(&self) {}

    /// Closes the connections of the source itself.
    fn close(&self) {}
}

/// The functions that are told what comes over a connection, in the task that reads it.
#[derive(Clone)]
pub(crate) struct Receiver {
    /// Is told a message.
    pub(crate) message: Arc<dyn Fn(Message) + Send + Sync>,
    /// Is told that the connection has ended.
    pub(crate) ended: Arc<dyn Fn() + Send + Sync>,
    /// Is told that another server answers in the place of its server by now.
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

    /// Passes on what the driver reports.
    pub(crate) fn push_sender(
        &self,
    ) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
        let Self { message, ended, .. } = self.clone();
        move |push| {
            match push.kind {
                PushKind::Message => pushed(&push).into_iter().for_each(|it| message(it)),
                PushKind::Disconnection => ended(),
                _ => {}
            }
            Ok(())
        }
    }
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<Opened, StoreError>> + Send>>;

/// Makes a connection within the connect timeout.
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

/// A connection that was made just now.
pub(crate) struct Opened {
    pub(crate) driver: MultiplexedConnection,
    /// The name of its server in messages, without the password.
    pub(crate) endpoint: Arc<str>,
    /// Makes further connections to the same server.
    pub(crate) again: Arc<dyn Source>,
    /// The number of replicas that others know of the server.
    pub(crate) replicas: u32,
    /// The task that gives it up when it leads to the wrong server.
    pub(crate) following: Option<AbortOnDrop>,
    /// Whether it was made by this runtime, without timers, and for the receiver.
    pub(crate) is_own: bool,
}

impl Opened {
    /// A connection that this runtime has made, without timers, and for the receiver.
    fn made_here(
        driver: MultiplexedConnection,
        endpoint: Arc<str>,
        again: Arc<dyn Source>,
    ) -> Self {
        Self {
            driver,
            endpoint,
            again,
            replicas: 0,
            following: None,
            is_own: true,
        }
    }

    /// A connection that other code has made, on any runtime. It does not report its end, and its timers must not be polled
    /// by another runtime than the one that made them.
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

    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening {
        Box::pin(async move {
            let connecting = connect(&self, timeouts.connect, receiver.push_sender());
            let driver = connecting.await;
            let driver = driver.map_err(|error| refused(&self.endpoint, error))?;
            Ok(Opened::made_here(driver, Arc::clone(&self.endpoint), self))
        })
    }
}

/// Connects to one server. What the server sends unasked goes to `pushes`. The driver limits no response time: its
/// callers do. `CLIENT LIST` shows the connection under the name of this process.
pub(crate) async fn connect(
    address: &Address,
    within: Duration,
    pushes: impl AsyncPushSender,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(within))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(UNSENT)
        .set_push_sender(pushes);
    #[cfg(feature = "credentials")]
    let config = match &address.credentials {
        Some(credentials) => config.set_credentials_provider(credentials.clone()),
        None => config,
    };
    let client = Client::open(address.info.clone())?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let driver = connecting.await?;
    let mut named = driver.clone();
    // No request waits for the answer. A server may reject it.
    tokio::spawn(async move {
        let mut naming = cmd("CLIENT");
        naming.arg("SETNAME").arg(process::connection_name());
        let _ = failure::within(within, naming.exec_async(&mut named)).await;
    });
    Ok(driver)
}

/// The error of a connection that could not be made. Nothing was executed, whatever the error says.
pub(crate) fn refused(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = match failure::effect(&error) {
        Effect::TurnedAway | Effect::Refused => Effect::TurnedAway,
        Effect::None | Effect::Unknown => Effect::None,
    };
    StoreError::new("connect", endpoint, effect, DriverError(error))
}
