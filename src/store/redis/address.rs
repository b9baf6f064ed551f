//! Where a server is, taken from its URL.

use std::sync::Arc;

use deadpool_redis::redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError};

use crate::{error::LockError, options::config};

/// A checked URL. Every connection to it speaks RESP3, which carries pushes: the news that a lock
/// has moved, and that the connection has ended.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) info: ConnectionInfo,
    /// Host and port for messages; never the password.
    pub(super) endpoint: Arc<str>,
}

impl Address {
    /// Connects nowhere; an error says why the URL cannot be used, without showing it.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        #[cfg(feature = "tls")]
        provide_crypto();
        let info = url.into_connection_info().map_err(unusable)?;
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        Ok(Self {
            endpoint: info.addr().to_string().into(),
            info: info.set_redis_settings(settings),
        })
    }
}

pub(super) fn unusable(error: RedisError) -> LockError {
    config(format!("the URL cannot be used: {error}"))
}

/// TLS takes its crypto provider from the process. Without this it is found only where exactly one
/// was compiled into the program, and everything else is a panic.
#[cfg(feature = "tls")]
fn provide_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may be faster: then there is one.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}
