//! The protocol of a connection: RESP3, or RESP2 if the server rejects RESP3 or the address requires RESP2.
//!
//! Each connection tries RESP3 again. So a server that is replaced, or that forwards to others, is always used with its
//! best protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, RedisError, cmd};

use super::address::Address;
use super::messages::{Apart, Messages, in_resp2};
use crate::base::{events, process};
use crate::store::redis::wire::failure::{refuses_resp3, within};

/// The capacity for requests that wait to be sent, which is larger than their number can be. Otherwise a request that
/// waits for room, and is not polled when it gets some, would keep the room from all requests behind it.
const UNSENT: usize = 1 << 20;

/// Connects to one server. What the server sends unasked goes to `pushes`. The driver does not limit the response time:
/// its callers do. `CLIENT LIST` shows the connection under the name of this process.
pub(crate) async fn connect(
    address: &Address,
    connect_timeout: Duration,
    pushes: impl AsyncPushSender,
) -> Result<(MultiplexedConnection, Messages), RedisError> {
    let pushes: Arc<dyn AsyncPushSender> = Arc::new(pushes);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(UNSENT);
    #[cfg(feature = "credentials")]
    let config = match &address.credentials {
        Some(credentials) => config.set_credentials_provider(credentials.clone()),
        None => config,
    };
    if let Some(driver) = try_resp3(address, &config, &pushes).await? {
        // No request waits for the response. A server may reject it.
        let naming = name(driver.clone(), connect_timeout);
        tokio::spawn(async move { drop(naming.await) });
        return Ok((driver.clone(), Messages::Beside(driver)));
    }
    let driver = open(in_resp2(address), &config).await?;
    // Without a password, no request so far shows whether one is needed.
    match name(driver.clone(), connect_timeout).await {
        Err(error) if error.code() == Some("NOAUTH") => return Err(error),
        _named_or_rejected => {}
    }
    let apart = Apart {
        address: address.clone(),
        connect_timeout,
        pushes,
    };
    Ok((driver, Messages::Apart(Arc::new(apart))))
}

/// Connects in RESP3. `None` if the server rejects RESP3, or the address requires RESP2.
async fn try_resp3(
    address: &Address,
    config: &AsyncConnectionConfig,
    pushes: &Arc<dyn AsyncPushSender>,
) -> Result<Option<MultiplexedConnection>, RedisError> {
    if address.info.redis_settings().protocol() == ProtocolVersion::RESP2 {
        return Ok(None);
    }
    let config = config.clone().set_push_sender(Arc::clone(pushes));
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
