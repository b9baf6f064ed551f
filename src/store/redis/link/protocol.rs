//! The protocol of a connection: RESP3, or RESP2 if the server rejects RESP3 or the address requires RESP2.
//!
//! Each connection tries RESP3 again. So a server that is replaced, or that forwards to others, is always used with its
//! best protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub, SendError};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError,
    cmd,
};

use super::address::Address;
use crate::base::{events, process};
use crate::store::redis::wire::failure::{refuses_resp3, within};

/// Called in the task that reads a connection, when the connection has ended or leads to the wrong server.
pub(crate) type Ended = Arc<dyn Fn() + Send + Sync>;

/// The capacity for requests that wait to be sent, which is larger than their number can be. Otherwise a request that
/// waits for room, and is not polled when it gets some, would keep the room from all requests behind it.
const UNSENT: usize = 1 << 20;

/// Connects to one server. `ended` is called when the connection has ended, which only RESP3 reports. The driver does not
/// limit the response time: its callers do. `CLIENT LIST` shows the connection under the name of this process.
pub(crate) async fn connect(
    address: &Address,
    connect_timeout: Duration,
    ended: Ended,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(UNSENT);
    #[cfg(feature = "credentials")]
    let config = match &address.credentials {
        Some(credentials) => config.set_credentials_provider(credentials.clone()),
        None => config,
    };
    if let Some(driver) = try_resp3(address, &config, ended).await? {
        // No request waits for the response. A server may reject it.
        let naming = name(driver.clone(), connect_timeout);
        tokio::spawn(async move { drop(naming.await) });
        return Ok(driver);
    }
    let driver = open(in_resp2(address), &config).await?;
    // Without a password, no request so far shows whether one is needed.
    match name(driver.clone(), connect_timeout).await {
        Err(error) if error.code() == Some("NOAUTH") => Err(error),
        _named_or_rejected => Ok(driver),
    }
}

/// Connects in RESP3. `None` if the server rejects RESP3, or the address requires RESP2.
async fn try_resp3(
    address: &Address,
    config: &AsyncConnectionConfig,
    ended: Ended,
) -> Result<Option<MultiplexedConnection>, RedisError> {
    if address.info.redis_settings().protocol() == ProtocolVersion::RESP2 {
        return Ok(None);
    }
    let pushed = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            ended();
        }
        Ok::<_, SendError>(())
    };
    let config = config.clone().set_push_sender(pushed);
    match open(address.info.clone(), &config).await {
        Err(error) if refuses_resp3(&error) => {
            if !address.is_refusal_told.swap(true, Relaxed) {
                events::resp3_rejected(&address.endpoint, &error);
            }
            Ok(None)
        }
        connected => connected.map(Some),
    }
}

/// Opens a connection that only receives messages. RESP2 is enough for that, and every server has it.
pub(super) async fn connect_for_messages(address: &Address) -> Result<PubSub, RedisError> {
    let info = in_resp2(address);
    // The driver passes no credentials to such a connection, which cannot log in again either.
    #[cfg(feature = "credentials")]
    let info = match &address.credentials {
        Some(credentials) => {
            let newest = credentials.newest().await?;
            let settings = info.redis_settings().clone();
            let settings = settings
                .set_username(newest.username())
                .set_password(newest.password());
            info.set_redis_settings(settings)
        }
        None => info,
    };
    Client::open(info)?.get_async_pubsub().await
}

/// The address, with RESP2 as its protocol.
fn in_resp2(address: &Address) -> ConnectionInfo {
    let settings = address.info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP2);
    address.info.clone().set_redis_settings(settings)
}

async fn open(
    info: ConnectionInfo,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let client = Client::open(info)?;
    let connecting = client.get_multiplexed_async_connection_with_config(config);
    connecting.await
}

/// Gives a connection the name of this process.
async fn name(mut driver: MultiplexedConnection, limit: Duration) -> Result<(), RedisError> {
    let mut naming = cmd("CLIENT");
    naming.arg("SETNAME").arg(process::connection_name());
    within(limit, naming.exec_async(&mut driver)).await
}
