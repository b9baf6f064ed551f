//! The crate redisson. Despite its name, it does not use the protocol of Redisson: it polls.
//!
//! It asks every 100 ms, which cannot be changed, and sends a PING before each command on a pooled
//! connection. A lease that is not zero is never renewed, and its default is 30 s. Its `unlock`
//! returns false when it has unlocked.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use redisson::{AsyncRLock, AsyncRedissonClient, RedissonConfig};

use crate::contestant::{Contestant, Held};

// A waiter keeps its connection during the pause. With the default of 10 connections, a release waits behind all
// waiters, and fails if it gets no connection within 3 s.
const POOL: u32 = 256;
/// The TTL of a read lock, which has no default.
const LEASE: Duration = Duration::from_secs(30);

/// An `AsyncRedissonClient`.
pub(crate) struct Redisson(AsyncRedissonClient);

impl Redisson {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let config = RedissonConfig::single_server(url).with_pool_size(POOL);
        Ok(Self(AsyncRedissonClient::new(config).await?))
    }
}

impl Redisson {
    /// A section of its read lock. It passes the number of the thread where its script expects the TTL in ms, and an
    /// unlock fails if there is another reader. So there is only one reader.
    pub(crate) async fn read(&self, key: &str) -> Result<()> {
        let lock = self.0.get_read_write_lock(key, LEASE).read_lock();
        lock.lock().await?;
        lock.unlock().await?;
        Ok(())
    }
}

#[async_trait]
impl Contestant for Redisson {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        let lock = self.0.get_lock(key);
        lock.lock().await?;
        Ok(Box::new(Locked(lock)))
    }
}

struct Locked(AsyncRLock);

#[async_trait]
impl Held for Locked {
    async fn release(self: Box<Self>) -> Result<()> {
        self.0.unlock().await?;
        Ok(())
    }
}
