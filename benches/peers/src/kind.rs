//! The contestants by name: the measures in which each takes part, and how each is built.

use std::sync::Arc;

use ::reentry::Locks;
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::contestant::Shared;
#[cfg(feature = "redisson")]
use crate::contestants::redisson_crate;
use crate::contestants::{
    async_redis_lock, blpop, classic, distributed_lock_redis, in_process_queue, rds_lock,
    redisson_protocol, reentry, rslock,
};
use crate::settings::Settings;

/// One contestant with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Two bare EVALSHA of the classic scripts, without waiting. The control.
    Classic,
    /// A fair mutex of this process in front of `classic`.
    InProcessQueue,
    /// BLPOP on a list with one token; no owner, no TTL.
    Blpop,
    /// The protocol of Redisson: a script, and a message at every unlock.
    RedissonProtocol,
    /// This project.
    Reentry,
    /// rslock with its defaults.
    Rslock,
    /// rslock, tuned.
    RslockTuned,
    /// async-redis-lock with its defaults.
    AsyncRedisLock,
    /// async-redis-lock, tuned.
    AsyncRedisLockTuned,
    /// rds_lock with its defaults.
    RdsLock,
    /// rds_lock, tuned.
    RdsLockTuned,
    /// distributed-lock-redis, which does not wait: asked every 10 ms.
    DistributedLockRedis,
    /// The crate redisson (feature `redisson`), which cannot be tuned: it always asks every 100 ms.
    #[cfg(feature = "redisson")]
    RedissonCrate,
}

impl Kind {
    /// Whether it takes part where no client waits. Settings make no difference there.
    pub(crate) fn alone(self) -> bool {
        !matches!(
            self,
            Kind::RslockTuned | Kind::AsyncRedisLockTuned | Kind::RdsLockTuned
        )
    }

    /// Whether tasks of one process can wait for it.
    pub(crate) fn waits(self) -> bool {
        self != Kind::Classic
    }

    /// Whether tasks of several processes can wait for it.
    pub(crate) fn waits_for_others(self) -> bool {
        self.waits() && self != Kind::InProcessQueue
    }

    /// Whether it renews a lease of 30 s in the background.
    pub(crate) fn renews(self) -> bool {
        matches!(
            self,
            Kind::RedissonProtocol
                | Kind::Reentry
                | Kind::AsyncRedisLockTuned
                | Kind::RdsLockTuned
                | Kind::DistributedLockRedis
        )
    }

    /// Whether its waiters may subscribe. The others poll, or need a connection each.
    pub(crate) fn subscribes(self) -> bool {
        matches!(self, Kind::RedissonProtocol | Kind::Reentry)
    }

    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A new client of the server at `url`, which shares nothing with any other.
    pub(crate) async fn connect(self, url: &str) -> Result<Shared> {
        use Settings::{Defaults, Tuned};
        Ok(match self {
            Kind::Classic => Arc::new(classic::Classic::connect(url).await?),
            Kind::InProcessQueue => Arc::new(in_process_queue::Queue::connect(url).await?),
            Kind::Blpop => Arc::new(blpop::Blpop::connect(url).await?),
            Kind::RedissonProtocol => Arc::new(redisson_protocol::Client::connect(url).await?),
            Kind::Reentry => Arc::new(reentry::Reentry::build(Locks::builder(url)).await?),
            Kind::Rslock => Arc::new(rslock::Rslock::new(url, Defaults)),
            Kind::RslockTuned => Arc::new(rslock::Rslock::new(url, Tuned)),
            Kind::AsyncRedisLock => {
                Arc::new(async_redis_lock::AsyncRedisLock::connect(url, Defaults).await?)
            }
            Kind::AsyncRedisLockTuned => {
                Arc::new(async_redis_lock::AsyncRedisLock::connect(url, Tuned).await?)
            }
            Kind::RdsLock => Arc::new(rds_lock::RdsLock::connect(url, Defaults).await?),
            Kind::RdsLockTuned => Arc::new(rds_lock::RdsLock::connect(url, Tuned).await?),
            Kind::DistributedLockRedis => {
                Arc::new(distributed_lock_redis::DistributedLock::connect(url).await?)
            }
            #[cfg(feature = "redisson")]
            Kind::RedissonCrate => Arc::new(redisson_crate::Redisson::connect(url).await?),
        })
    }
}
