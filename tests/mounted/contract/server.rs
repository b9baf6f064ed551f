//! A server of the test, and the means to let its time pass.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script};

use crate::redis::{ServerSpec, Timeouts};
use crate::store::redis::RedisStore;
use crate::store::redis::lua::assemble;
use crate::store::{ForcedReleaseListener, Store};
use crate::support::{DEADLINE, RedisServer, cluster};

async fn connect(store: &Store) {
    let connected = store.connect().await;
    connected.expect("a connection to the test's own server");
}

/// A server of the test, whose time passes on command: expiries move, its clock does not.
#[derive(Clone)]
pub(crate) struct Server {
    process: Arc<RedisServer>,
    /// The address, for a store.
    url: String,
    /// The number of requests in flight from which on the short requests of its stores travel together, if it is not
    /// the usual one.
    together_from: Option<usize>,
    pub(crate) connection: MultiplexedConnection,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let process = RedisServer::start().await;
        let url = process.url();
        Self::new(process, url).await
    }

    /// A cluster that has one node.
    pub(crate) async fn start_cluster() -> Self {
        let process = cluster::alone().await;
        let url = format!("redis+cluster://{}", process.address());
        Self::new(process, url).await
    }

    async fn new(process: RedisServer, url: String) -> Self {
        let connection = process.connection().await;
        Self {
            process: Arc::new(process),
            url,
            together_from: None,
            connection,
        }
    }

    /// The same server, to which all short requests travel in batches.
    pub(crate) fn with_batches(self) -> Self {
        Self {
            together_from: Some(0),
            ..self
        }
    }

    /// The same server, to which no requests travel together. It executes them in the order in which they are sent.
    pub(crate) fn without_batches(self) -> Self {
        Self {
            together_from: Some(usize::MAX),
            ..self
        }
    }

    pub(crate) async fn store(&self) -> Store {
        let store = self.unconnected();
        connect(&store).await;
        store
    }

    /// The store of a process that gets messages about holds which were ended by force.
    pub(crate) async fn watching_store(&self, holders: Weak<dyn ForcedReleaseListener>) -> Store {
        let store = self.unconnected();
        store.watch(holders);
        connect(&store).await;
        store
    }

    fn unconnected(&self) -> Store {
        let timeouts = Timeouts {
            connect: DEADLINE,
            response: DEADLINE,
        };
        let origin = ServerSpec::parse(&self.url).expect("a URL");
        let store = RedisStore::open(origin, timeouts);
        Store::Redis(match self.together_from {
            Some(from) => store.with_batches_from(from),
            None => store,
        })
    }

    /// Moves every expiry nearer by `span`, including those of entries, waits and victims. A key without an expiry gets
    /// none.
    pub(crate) async fn pass(&self, span: Duration) {
        const PASS: &str = "
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then
    redis.call('PEXPIRE', key, math.max(left - ARGV[1], 0))
  end
  if string.match(key, '^reentry:entries:') then
    local entries = redis.call('HGETALL', key)
    for at = 1, #entries, 2 do
      local deadline, wish = string.match(entries[at + 1], '^(%d+)( .*)$')
      if deadline then
        deadline = string.format('%.0f', deadline - ARGV[1] * 1000)
        redis.call('HSET', key, entries[at], deadline .. wish)
      elseif entries[at] == 'pause' then
        redis.call('HINCRBY', key, 'pause', -ARGV[1] * 1000)
      end
    end
  end
  if string.match(key, '^reentry:waits:') then
    local waits = redis.call('HGETALL', key)
    for at = 1, #waits, 2 do
      local stamp, deadline, rest = string.match(waits[at + 1], '^(%d+) (%d+)( .*)$')
      if stamp then
        local times = string.format('%.0f %.0f', stamp - ARGV[1] * 1000, deadline - ARGV[1] * 1000)
        redis.call('HSET', key, waits[at], times .. rest)
      end
    end
  end
  if string.match(key, '^reentry:victim:') then
    local victims = redis.call('HGETALL', key)
    for at = 1, #victims, 2 do
      redis.call('HSET', key, victims[at], string.format('%.0f', victims[at + 1] - ARGV[1] * 1000))
    end
  end
  if string.match(key, '^reentry:queue:') then
    local ended = redis.call('ZRANGE', key, TOMBSTONES_FROM, '+inf', 'BYSCORE')
    for _, tombstone in ipairs(ended) do
      redis.call('ZINCRBY', key, -ARGV[1], tombstone)
    end
    for _, reader in ipairs(redis.call('ZRANGE', key, '-inf', '(0', 'BYSCORE')) do
      redis.call('ZINCRBY', key, ARGV[1], reader)
    end
  end
end";
        let millis = u64::try_from(span.as_millis()).expect("a span of a test");
        let mut connection = self.connection.clone();
        let pass = Script::new(&assemble(PASS));
        let passed = pass.arg(millis).invoke_async(&mut connection).await;
        passed.expect("time to pass")
    }

    pub(crate) fn process(&self) -> &RedisServer {
        &self.process
    }

    /// Sets a key to a text.
    pub(crate) async fn set(&self, key: &str, text: &str) {
        let mut connection = self.connection.clone();
        let () = connection.set(key, text).await.expect("SET");
    }

    pub(crate) async fn flush(&self) {
        let mut connection = self.connection.clone();
        let () = connection.flushall().await.expect("FLUSHALL");
    }

    /// The keys that would remain for ever.
    pub(crate) async fn immortal(&self) -> Vec<String> {
        const IMMORTAL: &str = "
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then
    table.insert(found, key)
  end
end
return found";
        let mut connection = self.connection.clone();
        let found = Script::new(IMMORTAL).invoke_async(&mut connection).await;
        found.expect("the keys without an expiry")
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.process, f)
    }
}
