//! The crate rds_lock, in write mode. Its defaults are those of async-redis-lock, its successor.
//!
//! It requires a connection of redis 0.32.

use std::pin::Pin;

use anyhow::Result;
use async_trait::async_trait;
use rds_lock::Locker;
use redis_032::Client;
use redis_032::aio::ConnectionManager;

use crate::contestant::{Contestant, Held};
use crate::settings::Settings;

/// The connection that every `Locker` gets a clone of.
pub(crate) struct RdsLock {
    connection: ConnectionManager,
    settings: Settings,
}

impl RdsLock {
    pub(crate) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let connection = ConnectionManager::new(Client::open(url)?).await?;
        Ok(Self {
            connection,
            settings,
        })
    }

    fn locker(&self) -> Locker<ConnectionManager> {
        let locker = Locker::new(self.connection.clone());
        match self.settings {
            Settings::Defaults => locker,
            Settings::Tuned => locker.to(30_000).rty_int(10).rty_to(-1).ext_int(10_000),
        }
    }
}

#[async_trait]
impl Contestant for RdsLock {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        loop {
            match self.locker().lock(key.to_owned()).await {
                Ok(unlock) => return Ok(Box::new(Unlock(Box::pin(unlock)))),
                // Its only sign of a wait that was too long.
                Err(error) if error.to_string() == "Timed out" => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The future that unlocks.
struct Unlock(Pin<Box<dyn Future<Output = Result<()>> + Send>>);

#[async_trait]
impl Held for Unlock {
    async fn release(self: Box<Self>) -> Result<()> {
        self.0.await
    }
}
