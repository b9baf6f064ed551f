//! The crate async-redis-lock.
//!
//! By default it asks every 100 ms, and gives up after a second. Its lease is 3 s, and is renewed every second.

use std::time::Duration;

use anyhow::Result;
use async_redis_lock::{Error, Lock, Locker, Options};
use async_trait::async_trait;

use crate::contestant::{Contestant, Held};
use crate::settings::Settings;

/// A `Locker` and its options.
pub(crate) struct AsyncRedisLock {
    locker: Locker,
    options: Options,
}

impl AsyncRedisLock {
    pub(crate) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let options = match settings {
            Settings::Defaults => Options::default(),
            Settings::Tuned => Options::default()
                .retry(Duration::from_millis(10))
                .timeout(None)
                .ttl(Duration::from_secs(30))
                .extend(Duration::from_secs(10)),
        };
        let locker = Locker::from_redis_url(url).await?;
        Ok(Self { locker, options })
    }
}

#[async_trait]
impl Contestant for AsyncRedisLock {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        loop {
            match self.locker.acquire_with_options(&self.options, key).await {
                Ok(lock) => return Ok(Box::new(lock)),
                Err(Error::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[async_trait]
impl Held for Lock {
    async fn release(self: Box<Self>) -> Result<()> {
        Ok(Lock::release(*self).await?)
    }
}
