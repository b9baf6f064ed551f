//! The common code of the references: a connection without time limits, and scripts on it.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};

/// A connection on which a command may block.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(url)?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// A script that the server has loaded.
#[derive(Clone, Debug)]
pub(crate) struct Script(String);

impl Script {
    pub(crate) async fn load(
        connection: &mut MultiplexedConnection,
        source: &str,
    ) -> Result<Script> {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(source);
        Ok(Script(load.query_async(connection).await?))
    }

    pub(crate) async fn call<T: FromRedisValue>(
        &self,
        connection: &MultiplexedConnection,
        keys: &[&str],
        args: &[&str],
    ) -> Result<T> {
        let mut call = cmd("EVALSHA");
        call.arg(&self.0).arg(keys.len()).arg(keys).arg(args);
        Ok(call.query_async(&mut connection.clone()).await?)
    }
}

/// Two scripts on one multiplexed connection.
#[derive(Clone)]
pub(crate) struct LockScripts {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) lock: Script,
    pub(crate) unlock: Script,
}

impl LockScripts {
    pub(crate) async fn connect(url: &str, lock: &str, unlock: &str) -> Result<Self> {
        let mut connection = connect(url).await?;
        let lock = Script::load(&mut connection, lock).await?;
        let unlock = Script::load(&mut connection, unlock).await?;
        Ok(Self {
            connection,
            lock,
            unlock,
        })
    }
}

/// A name for one hold that no other process has, in the form of a classic field.
pub(crate) fn owner() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "{:08x}-0000-4000-8000-000000000000:{next}",
        std::process::id()
    )
}
