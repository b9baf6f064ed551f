//! A client that waits as Redisson's `RLock` does: on a channel, and for the lease that it saw. It is based on what
//! Redisson has published.

use super::classic::{Unlocked, classic_lock, classic_unlock};
use super::server::RedisServer;
use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncCommands, cmd};

/// KEYS: lock. ARGV: holder, mode, TTL in ms. Returns nil if the lock was taken or re-entered, otherwise the remaining
/// lease in ms. This is how an `RReadWriteLock` decides, without the leases of its single readers.
const LOCK_IN_MODE: &str = "
local lock, holder, wanted, ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local mode = redis.call('HGET', lock, 'mode')
if mode == false then
  redis.call('HSET', lock, 'mode', wanted)
  redis.call('HSET', lock, holder, 1)
  redis.call('PEXPIRE', lock, ttl)
  return false
end
if wanted == 'read' and mode == 'read' or mode == 'write' and redis.call('HEXISTS', lock, holder) == 1 then
  redis.call('HINCRBY', lock, holder, 1)
  return false
end
return redis.call('PTTL', lock)
";

/// Takes a lock as an `RReadWriteLock` does in this mode, `read` or `write`. Returns the lease of another holder in ms, if there
/// is one.
pub async fn lock_in_mode(
    connection: &mut MultiplexedConnection,
    key: &str,
    holder: &str,
    mode: &str,
    ttl_ms: u64,
) -> Option<i64> {
    let mut eval = cmd("EVAL");
    eval.arg(LOCK_IN_MODE).arg(1).arg(key);
    eval.arg(holder).arg(mode).arg(ttl_ms);
    let locked = eval.query_async(connection).await;
    locked.expect("the script of a lock with a mode")
}

/// A client, for one lock and one thread.
pub struct Redisson {
    key: String,
    channel: String,
    holder: String,
    messages: PubSub,
    connection: MultiplexedConnection,
}

impl Redisson {
    /// A client that listens.
    pub async fn start(server: &RedisServer, key: &str, holder: &str) -> Self {
        let client = redis::Client::open(server.url()).expect("a URL");
        let mut messages = client.get_async_pubsub().await.expect("a connection");
        let channel = format!("redisson_lock__channel:{{{key}}}");
        messages.subscribe(&channel).await.expect("a subscription");
        Self {
            key: key.to_owned(),
            channel,
            holder: holder.to_owned(),
            messages,
            connection: server.connection().await,
        }
    }

    /// Requests the lock. Returns the lease of another holder in ms, if there is one.
    pub async fn ask(&mut self, ttl_ms: u64) -> Option<i64> {
        classic_lock(&mut self.connection, &self.key, &self.holder, ttl_ms).await
    }

    /// The next message on its channel.
    pub async fn told(&mut self) -> String {
        let message = self.messages.on_message().next().await.expect("a message");
        message.get_payload().expect("a text")
    }

    /// Frees the lock, and notifies the other clients.
    pub async fn unlock(&mut self, ttl_ms: u64) {
        let unlocked = classic_unlock(&mut self.connection, &self.key, &self.holder, ttl_ms).await;
        assert_eq!(unlocked, Unlocked::Freed);
        let told = self.connection.publish(&self.channel, "0");
        told.await.expect("a server that takes a message")
    }
}
