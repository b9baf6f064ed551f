//! The bare classic scripts for readers and writers: a hash with the mode and a count for each owner, one lease for all
//! of them, and a flag with which a waiting writer excludes new readers.

use anyhow::{Result, ensure};

use super::classic::TTL_MS;
use crate::bare::{self, LockScripts};

/// nil, or the milliseconds for which a writer excludes readers.
const LOCK: &str = "
if redis.call('exists', KEYS[2]) == 1 then return redis.call('pttl', KEYS[2]) end
if redis.call('hget', KEYS[1], 'mode') == 'write' then return redis.call('pttl', KEYS[1]) end
redis.call('hset', KEYS[1], 'mode', 'read')
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return nil";
const UNLOCK: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then
  redis.call('hdel', KEYS[1], ARGV[1])
  if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end
end
return 1";

/// The two scripts.
#[derive(Clone)]
pub(crate) struct ClassicReaders(LockScripts);

impl ClassicReaders {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockScripts::connect(url, LOCK, UNLOCK).await?))
    }

    /// A section of a reader. There must be no writer at the same time, because no caller waits here.
    pub(crate) async fn section(&self, key: &str, body: impl Future<Output = ()>) -> Result<()> {
        let (owner, intent) = (bare::owner(), format!("{key}:intent"));
        let args = [TTL_MS, owner.as_str()];
        let keys = [key, intent.as_str()];
        let busy: Option<i64> = self.0.lock.call(&self.0.connection, &keys, &args).await?;
        ensure!(busy.is_none(), "{key} is busy, and no reader waits here");
        body.await;
        self.0
            .unlock
            .call(&self.0.connection, &[key], &args[1..])
            .await
    }
}
