//! Locks in Redis: each operation is one Lua script in `lua/`.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_redis::{Pool, redis::Value};
use tokio::{sync::watch, time::Instant};

use self::{
    connect::Connector,
    inbox::Inbox,
    names::{Entries, Field},
    reply::Unexpected,
    script::{ACQUIRE, Call, DEPTH, FORCE_RELEASE, INSPECT, RELEASE, RENEW, millis},
};
use super::{
    AcquireReply, AcquireRequest, Answer, DepthChange, Listener, Order, Presence, ReleaseReply,
    ReleaseRequest, Renewal, SHOWN, Seen, Snapshot, Store,
};
use crate::base::{
    error::{LockError, StoreError},
    id::InboxId,
    key::LockKey,
};

mod address;
mod connect;
mod in_flight;
mod inbox;
mod names;
mod pace;
mod reply;
mod script;
mod traffic;

pub(crate) use self::{address::Address, connect::Timeouts};
#[cfg(any(test, fuzzing))]
pub(crate) use self::{
    address::properties::url,
    names::properties::key,
    reply::properties::{message, reply},
};

/// A Redis server.
#[derive(Debug)]
pub(crate) struct RedisStore {
    connector: Arc<Connector>,
    /// None where only a pool is known, which does not give its client away.
    inbox: Option<Inbox>,
}

impl RedisStore {
    pub(crate) async fn connect(address: Address, timeouts: Timeouts) -> Result<Self, LockError> {
        let connector = Connector::open(&address, timeouts)?;
        let store = Self::ready(connector, Some(address), timeouts).await;
        store.map_err(|source| LockError::Store { key: None, source })
    }

    /// All commands go over the pool; without an address there is no inbox.
    pub(crate) async fn over(
        pool: Pool,
        address: Option<Address>,
        timeouts: Timeouts,
    ) -> Result<Self, StoreError> {
        Self::ready(Connector::over(pool, timeouts), address, timeouts).await
    }

    async fn ready(
        connector: Connector,
        address: Option<Address>,
        timeouts: Timeouts,
    ) -> Result<Self, StoreError> {
        let connector = Arc::new(connector);
        connector.connect().await?;
        let disconnects = connector.disconnects().clone();
        let inbox = address.map(|address| Inbox::new(address, timeouts, disconnects));
        Ok(Self { connector, inbox })
    }

    fn run<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected> + Send + 'static,
    ) -> Answer<T> {
        let connector = Arc::clone(&self.connector);
        Box::pin(async move { connector.run(call, read).await })
    }
}

impl Store for RedisStore {
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        let ttl = request.ttl;
        let call = ACQUIRE
            .call(3)
            .arg(key.as_str())
            .arg(key.line())
            .arg(Entries(key))
            .arg(Field(request.hold))
            .millis(ttl);
        let call = match request.entry {
            Some(entry) => call
                .arg(entry.inbox.as_bytes())
                .millis(entry.grant)
                .millis(entry.life)
                .told(entry),
            None => call,
        };
        self.run(call, move |reply| reply::acquired(reply, ttl))
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let call = DEPTH
            .call(2)
            .arg(key.as_str())
            .arg(Entries(key))
            .arg(Field(change.hold))
            .arg(change.target)
            .arg(change.seq)
            .millis(if change.lengthen {
                change.ttl
            } else {
                Duration::ZERO
            });
        self.run(call, reply::presence)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        let call = RENEW
            .call(1)
            .arg(key.as_str())
            .arg(Field(renewal.hold))
            .millis(renewal.ttl);
        self.run(call, reply::presence)
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        let mut call = RELEASE
            .call(3)
            .arg(key.as_str())
            .arg(key.line())
            .arg(Entries(key))
            .arg(Field(request.hold));
        if !request.is_short() {
            let marks = match (request.tombstone, request.nested) {
                (true, true) => "xd",
                (true, false) => "x",
                (false, true) => "d",
                (false, false) => "",
            };
            call = call.arg(marks).arg(request.inbox.as_bytes());
        }
        if let Some(successor) = request.successor {
            let pass = u8::from(successor.order == Order::QueueFirst);
            let [lease, life] = [successor.entry.grant, successor.entry.life].map(millis);
            call = call
                .arg(Field(successor.hold))
                .millis(successor.ttl)
                .arg(format!("{pass} {lease} {life}"))
                .told(successor.entry);
        }
        let ttl = request.successor.map(|successor| successor.ttl);
        self.run(call, move |reply| reply::released(reply, ttl))
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let call = INSPECT
            .call(2)
            .arg(key.as_str())
            .arg(Entries(key))
            .arg(SHOWN);
        self.run(call, reply::snapshot)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        let token = seen.token.map(|token| token.to_string());
        let call = FORCE_RELEASE
            .call(3)
            .arg(key.as_str())
            .arg(key.line())
            .arg(Entries(key))
            .arg(seen.field)
            .arg(token.unwrap_or_default());
        self.run(call, reply::flag)
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let channel = self.inbox.as_ref();
        channel.is_some_and(|channel| channel.open(inbox, listener))
    }

    fn check_subscription(&self) {
        self.inbox.iter().for_each(Inbox::check_subscription);
    }

    fn suspect(&self, since: Instant) {
        self.connector.suspect(since);
    }

    fn answers_within(&self) -> Duration {
        self.connector.answers_within()
    }

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.connector.disconnects().subscribe()
    }

    fn connection_epoch(&self) -> u64 {
        self.connector.connection_epoch()
    }
}
