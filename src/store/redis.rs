//! Locks in Redis: each operation is one Lua script in `lua/`.

use std::{sync::Arc, time::Duration};

use deadpool_redis::Pool;
use tokio::sync::watch;

use self::{
    connect::Lanes,
    script::{ACQUIRE, Call, DEPTH, FORCE_RELEASE, INSPECT, RELEASE, RENEW},
};
use super::{
    Acquired, Answer, Claim, DepthChange, Ending, Presence, Seen, Snapshot, Store, TOMBSTONE_LIFE,
    meta_life,
};
use crate::{
    error::{LockError, StoreError},
    id::HoldId,
    key::LockKey,
    options::config,
};

pub(crate) mod connect;
mod names;
mod script;

pub(crate) use connect::Timeouts;

/// A Redis server.
#[derive(Debug)]
pub(crate) struct RedisStore {
    lanes: Arc<Lanes>,
}

impl RedisStore {
    pub(crate) async fn connect(url: &str, timeouts: Timeouts) -> Result<Self, LockError> {
        let lanes = Lanes::open(url, timeouts)
            .map_err(|error| config(format!("the URL cannot be used: {error}")))?;
        let store = Self::ready(lanes).await;
        store.map_err(|source| LockError::Store { key: None, source })
    }

    pub(crate) async fn over(pool: Pool, timeouts: Timeouts) -> Result<Self, StoreError> {
        Self::ready(Lanes::over(pool, timeouts)).await
    }

    async fn ready(lanes: Lanes) -> Result<Self, StoreError> {
        let lanes = Arc::new(lanes);
        lanes.connect().await?;
        Ok(Self { lanes })
    }

    fn run<T: 'static>(
        &self,
        call: Call,
        read: fn(deadpool_redis::redis::Value) -> Result<T, script::Unexpected>,
    ) -> Answer<T> {
        let lanes = Arc::clone(&self.lanes);
        Box::pin(async move { lanes.run(call, read).await })
    }
}

impl Store for RedisStore {
    fn acquire(&self, key: &LockKey, claim: Claim) -> Answer<Acquired> {
        let call = ACQUIRE
            .call()
            .key(key.as_str())
            .key(names::meta(key))
            .key(names::tombstone(key, claim.hold))
            .arg(claim.hold.to_string())
            .millis(claim.ttl)
            .millis(meta_life(claim.ttl));
        self.run(call, script::acquired)
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let call = DEPTH
            .call()
            .key(key.as_str())
            .key(names::meta(key))
            .arg(change.hold.to_string())
            .arg(change.target)
            .arg(change.seq)
            .millis(if change.lengthen {
                change.ttl
            } else {
                Duration::ZERO
            })
            .millis(meta_life(change.ttl));
        self.run(call, script::presence)
    }

    fn renew(
        &self,
        key: &LockKey,
        hold: HoldId,
        ttl: Duration,
        patience: Duration,
    ) -> Answer<Presence> {
        let call = RENEW
            .call()
            .key(key.as_str())
            .key(names::meta(key))
            .arg(hold.to_string())
            .millis(ttl)
            .millis(meta_life(ttl))
            .patience(patience);
        self.run(call, script::presence)
    }

    fn release(&self, key: &LockKey, ending: Ending) -> Answer<Presence> {
        let mut call = RELEASE.call().key(key.as_str());
        if ending.tombstone {
            call = call.key(names::tombstone(key, ending.hold));
        }
        let call = call.arg(ending.hold.to_string()).millis(TOMBSTONE_LIFE);
        self.run(call, script::presence)
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let call = INSPECT.call().key(key.as_str()).key(names::meta(key));
        self.run(call, script::snapshot)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        let call = FORCE_RELEASE
            .call()
            .key(key.as_str())
            .key(names::meta(key))
            .arg(seen.field)
            .arg(
                seen.token
                    .map(|token| token.to_string())
                    .unwrap_or_default(),
            );
        self.run(call, script::flag)
    }

    fn outages(&self) -> watch::Receiver<u64> {
        self.lanes.outages()
    }
}
