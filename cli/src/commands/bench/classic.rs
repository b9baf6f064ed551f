//! The classic scripts, without a library.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;

use crate::args::Global;
use crate::servers::{self, Role, Server, accepted};

/// Nil, or the milliseconds for which the lock is busy.
const LOCK: &str = "\
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

const UNLOCK: &str = "\
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
return 1";

const TTL_MS: &str = "10000";

/// The pause of a waiter before it asks again.
const POLL: Duration = Duration::from_millis(10);

/// The lock of a program that uses the classic scripts. Clones share its connection.
#[derive(Clone)]
pub(super) struct Classic {
    server: Arc<Server>,
    key: Arc<str>,
    /// The digests of the scripts.
    lock: Arc<str>,
    unlock: Arc<str>,
    owners: Arc<AtomicU64>,
}

impl Classic {
    /// Finds the server that has this key, and loads the scripts there.
    pub(super) async fn connect(global: &Global, key: &str) -> anyhow::Result<Self> {
        let servers = servers::all(global).await?;
        let primaries = servers.into_iter().filter(|it| *it.role() == Role::Primary);
        for server in primaries {
            // Another server of a cluster says which server has the key.
            if server.ask::<i64>(&["EXISTS", key]).await?.is_ok() {
                let lock = load(&server, LOCK).await?;
                let unlock = load(&server, UNLOCK).await?;
                return Ok(Self {
                    server: Arc::new(server),
                    key: key.into(),
                    lock,
                    unlock,
                    owners: Arc::default(),
                });
            }
        }
        bail!("no server has the key `{key}`")
    }

    pub(super) fn server(&self) -> &str {
        self.server.address()
    }

    /// Waits for the lock, as a new owner.
    pub(super) async fn acquire(&self) -> anyhow::Result<ClassicHold> {
        let owner = self.owners.fetch_add(1, Ordering::Relaxed).to_string();
        while self.call(&self.lock, &owner).await?.is_some() {
            tokio::time::sleep(POLL).await;
        }
        Ok(ClassicHold {
            classic: self.clone(),
            owner,
        })
    }

    /// Calls unlock for a lock that is not held.
    pub(super) async fn round_trip(&self) -> anyhow::Result<()> {
        self.call(&self.unlock, "another owner").await.map(drop)
    }

    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        accepted(self.server.ask::<i64>(&["DEL", &self.key]).await?).map(drop)
    }

    async fn call(&self, script: &str, owner: &str) -> anyhow::Result<Option<i64>> {
        let words = ["EVALSHA", script, "1", &self.key, TTL_MS, owner];
        accepted(self.server.ask(&words).await?)
    }
}

/// A lock that is held.
pub(super) struct ClassicHold {
    classic: Classic,
    owner: String,
}

impl ClassicHold {
    pub(super) async fn release(self) -> anyhow::Result<()> {
        let Self { classic, owner } = self;
        classic.call(&classic.unlock, &owner).await.map(drop)
    }
}

async fn load(server: &Server, script: &str) -> anyhow::Result<Arc<str>> {
    let digest: String = accepted(server.ask(&["SCRIPT", "LOAD", script]).await?)?;
    Ok(digest.into())
}
