//! The crate distributed-lock-redis.
//!
//! On one server its `acquire` makes one attempt, whatever its time limit is, and gives up if the lock is busy. So here
//! it is called every 10 ms. A hold that lasts longer than a moment is renewed immediately, and then every 10 s. Its
//! default, a TTL of 30 s, is also its best setting.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use distributed_lock_core::traits::{DistributedLock as _, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};

use crate::contestant::{Contestant, Held};

const PAUSE: Duration = Duration::from_millis(10);

/// A `RedisLockProvider`.
pub(crate) struct DistributedLock(RedisLockProvider);

impl DistributedLock {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(RedisLockProvider::new(url).await?))
    }
}

#[async_trait]
impl Contestant for DistributedLock {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        let lock = self.0.create_lock(key);
        loop {
            if let Some(handle) = lock.try_acquire().await? {
                return Ok(Box::new(handle));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[async_trait]
impl Held for RedisLockHandle {
    async fn release(self: Box<Self>) -> Result<()> {
        Ok(LockHandle::release(*self).await?)
    }
}
