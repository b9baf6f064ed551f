//! The bare classic scripts: the minimum for a lock with an owner and a TTL.

use anyhow::{Result, ensure};
use async_trait::async_trait;

use crate::bare::{self, LockScripts};
use crate::contestant::{Contestant, Held};

/// nil, or the milliseconds for which the lock is busy.
pub(crate) const LOCK: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";
const UNLOCK: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
return 1";
pub(crate) const TTL_MS: &str = "30000";

/// The two scripts.
#[derive(Clone)]
pub(crate) struct Classic(LockScripts);

impl Classic {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockScripts::connect(url, LOCK, UNLOCK).await?))
    }

    /// One round trip: an unlock of a lock that is not held.
    pub(crate) async fn round_trip(&self) -> Result<()> {
        let args = [TTL_MS, "another"];
        self.0
            .unlock
            .call(&self.0.connection, &["nothing"], &args)
            .await
    }

    /// Lock and unlock, without the clones that a separate hold needs.
    pub(crate) async fn pair(&self, key: &str) -> Result<()> {
        let owner = bare::owner();
        let args = [TTL_MS, owner.as_str()];
        let busy: Option<i64> = self.0.lock.call(&self.0.connection, &[key], &args).await?;
        ensure!(busy.is_none(), "{key} is busy, and no worker waits here");
        self.0.unlock.call(&self.0.connection, &[key], &args).await
    }

    /// Acquires a lock that must be free.
    pub(crate) async fn take(&self, key: &str) -> Result<Hold> {
        let owner = bare::owner();
        let args = [TTL_MS, owner.as_str()];
        let busy: Option<i64> = self.0.lock.call(&self.0.connection, &[key], &args).await?;
        ensure!(busy.is_none(), "{key} is busy, and no worker waits here");
        Ok(Hold {
            classic: self.clone(),
            key: key.to_owned(),
            owner,
        })
    }
}

#[async_trait]
impl Contestant for Classic {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        Ok(Box::new(self.take(key).await?))
    }

    async fn section(&self, key: &str) -> Result<()> {
        self.pair(key).await
    }
}

/// A lock that was acquired.
pub(crate) struct Hold {
    classic: Classic,
    key: String,
    owner: String,
}

impl Hold {
    /// A nested entry and its exit.
    pub(crate) async fn nested(&self) -> Result<()> {
        let LockScripts {
            lock,
            unlock,
            connection,
        } = &self.classic.0;
        let args = [TTL_MS, self.owner.as_str()];
        let busy: Option<i64> = lock.call(connection, &[&self.key], &args).await?;
        ensure!(busy.is_none(), "{} is not held any more", self.key);
        unlock.call(connection, &[&self.key], &args).await
    }
}

#[async_trait]
impl Held for Hold {
    async fn release(self: Box<Self>) -> Result<()> {
        let args = [TTL_MS, self.owner.as_str()];
        let LockScripts {
            unlock, connection, ..
        } = &self.classic.0;
        unlock.call(connection, &[&self.key], &args).await
    }
}
