//! The protocol of the Java client Redisson, as a Rust client would implement it.
//!
//! A script acquires the lock, or returns how long it is busy. A client that must wait subscribes to the channel of the
//! lock, with one subscription for each key and process. It asks again when a message arrives, or when the lease must
//! have expired. A message wakes one waiter in each subscribed process. The unlock script always publishes a message. A
//! lease of 30 s is renewed every 10 s.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::channels::Channels;
use super::classic::{LOCK, TTL_MS};
use crate::bare::{self, Script};
use crate::contestant::{Contestant, Held};

mod channels;

const UNLOCK: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1";
const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[1])";
const RENEWAL: Duration = Duration::from_secs(10);

/// One connection for commands and one for messages.
pub(crate) struct Client {
    wire: Arc<Wire>,
    channels: Channels,
}

struct Wire {
    connection: MultiplexedConnection,
    lock: Script,
    unlock: Script,
    renew: Script,
}

impl Client {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = bare::connect(url).await?;
        let lock = Script::load(&mut connection, LOCK).await?;
        let unlock = Script::load(&mut connection, UNLOCK).await?;
        let renew = Script::load(&mut connection, RENEW).await?;
        let wire = Arc::new(Wire {
            connection,
            lock,
            unlock,
            renew,
        });
        let channels = Channels::connect(url).await?;
        Ok(Self { wire, channels })
    }

    /// `None` if the lock was acquired, or the time for which it is busy.
    async fn try_take(&self, key: &str, owner: &str) -> Result<Option<Duration>> {
        let Wire {
            connection, lock, ..
        } = &*self.wire;
        let busy: Option<i64> = lock.call(connection, &[key], &[TTL_MS, owner]).await?;
        Ok(busy.map(|ms| Duration::from_millis(ms.try_into().unwrap_or(0))))
    }

    async fn wait(&self, key: &str, owner: &str) -> Result<()> {
        let channel = self.channels.join(&channel(key)).await?;
        while let Some(busy) = self.try_take(key, owner).await? {
            // Whether the time is over or not, it asks again.
            let _ = timeout(busy, channel.message()).await;
        }
        self.channels.leave(channel).await
    }
}

#[async_trait]
impl Contestant for Client {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        let owner = bare::owner();
        if self.try_take(key, &owner).await?.is_some() {
            self.wait(key, &owner).await?;
        }
        let watchdog = tokio::spawn(renew(Arc::clone(&self.wire), key.to_owned(), owner.clone()));
        Ok(Box::new(Hold {
            wire: Arc::clone(&self.wire),
            key: key.to_owned(),
            owner,
            watchdog,
        }))
    }
}

async fn renew(wire: Arc<Wire>, key: String, owner: String) -> Result<()> {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let args = [TTL_MS, owner.as_str()];
        let held: i64 = wire.renew.call(&wire.connection, &[&key], &args).await?;
        if held == 0 {
            return Ok(());
        }
    }
}

struct Hold {
    wire: Arc<Wire>,
    key: String,
    owner: String,
    watchdog: JoinHandle<Result<()>>,
}

#[async_trait]
impl Held for Hold {
    async fn release(self: Box<Self>) -> Result<()> {
        self.watchdog.abort();
        let Wire {
            connection, unlock, ..
        } = &*self.wire;
        let keys = [self.key.as_str(), &channel(&self.key)];
        unlock.call(connection, &keys, &[TTL_MS, &self.owner]).await
    }
}

fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}
