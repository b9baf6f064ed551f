//! The delivery of a server's messages: in RESP3 together with the replies, in RESP2 over a separate connection.

#[cfg(not(feature = "credentials"))]
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{AsyncPushSender, MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError, Value, cmd};

use super::address::Address;
use crate::base::background::AbortOnDrop;
use crate::store::redis::wire::failure::within;

/// The way in which messages come from the server of a connection.
#[derive(Clone)]
pub(crate) enum Messages {
    /// Messages in RESP3, over the connection for requests.
    Beside(MultiplexedConnection),
    /// Messages in RESP2, over a further connection to the server.
    Apart(Arc<Apart>),
}

/// The settings of the connections for messages in RESP2.
pub(crate) struct Apart {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    /// Receives the messages, and the end of the connection that delivers them.
    pub(crate) pushes: Arc<dyn AsyncPushSender>,
}

/// A subscription.
pub(crate) enum Subscribed {
    /// A subscription that lasts as long as the connection for requests.
    Beside(MultiplexedConnection),
    /// A subscription that lasts as long as this value.
    Apart {
        requests: PubSubSink,
        reading: AbortOnDrop,
    },
}

impl Messages {
    /// Subscribes to these channels. The limit applies to the response.
    pub(crate) async fn subscribe(
        &self,
        channels: &[&str],
        limit: Duration,
    ) -> Result<Subscribed, RedisError> {
        match self {
            Self::Beside(driver) => {
                let mut driver = driver.clone();
                within(limit, driver.subscribe(channels)).await?;
                Ok(Subscribed::Beside(driver))
            }
            Self::Apart(apart) => apart.subscribe(channels, limit).await,
        }
    }
}

impl Apart {
    async fn subscribe(
        &self,
        channels: &[&str],
        limit: Duration,
    ) -> Result<Subscribed, RedisError> {
        let connecting = async {
            let info = self.info().await?;
            Client::open(info)?.get_async_pubsub().await
        };
        let (mut requests, stream) = within(self.connect_timeout, connecting).await?.split();
        within(limit, requests.subscribe(channels)).await?;
        let reading = read(stream, Arc::clone(&self.pushes));
        Ok(Subscribed::Apart {
            requests,
            reading: AbortOnDrop::spawn(reading),
        })
    }

    /// The address in RESP2. With a provider of credentials it has the newest ones. The driver passes no credentials to
    /// a connection for messages, and in RESP2 a connection with subscriptions cannot log in again.
    #[cfg(feature = "credentials")]
    async fn info(&self) -> Result<ConnectionInfo, RedisError> {
        let info = in_resp2(&self.address);
        if let Some(credentials) = &self.address.credentials {
            let newest = credentials.newest().await?;
            let settings = info.redis_settings().clone();
            let settings = settings
                .set_username(newest.username())
                .set_password(newest.password());
            return Ok(info.set_redis_settings(settings));
        }
        Ok(info)
    }

    /// The address in RESP2.
    #[cfg(not(feature = "credentials"))]
    fn info(&self) -> Ready<Result<ConnectionInfo, RedisError>> {
        ready(Ok(in_resp2(&self.address)))
    }
}

/// The address, with RESP2 as its protocol.
pub(super) fn in_resp2(address: &Address) -> ConnectionInfo {
    let settings = address.info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP2);
    address.info.clone().set_redis_settings(settings)
}

impl Subscribed {
    /// Asks the server whether the connection of the subscription works.
    pub(crate) async fn ping(&mut self) -> Result<(), RedisError> {
        match self {
            Self::Beside(driver) => cmd("PING").exec_async(driver).await,
            Self::Apart { requests, .. } => requests.ping::<Value>().await.map(drop),
        }
    }

    /// The task that reads the messages, if it must be kept.
    pub(crate) fn into_reading(self) -> Option<AbortOnDrop> {
        match self {
            Self::Beside(_) => None,
            Self::Apart { reading, .. } => Some(reading),
        }
    }
}

/// Passes on the messages, and then the end of the connection, as the driver does in RESP3.
async fn read(mut stream: PubSubStream, pushes: Arc<dyn AsyncPushSender>) {
    let pass_on = |kind, data| {
        // The receivers of this crate always accept a push.
        let _ = pushes.send(PushInfo { kind, data });
    };
    while let Some(message) = stream.next().await {
        let part = |part: &[u8]| Value::BulkString(part.to_vec());
        let channel = message.get_channel_name().as_bytes();
        let parts = [channel, message.get_payload_bytes()].map(part);
        pass_on(PushKind::Message, parts.to_vec());
    }
    pass_on(PushKind::Disconnection, Vec::new());
}
