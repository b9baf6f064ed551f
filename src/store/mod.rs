//! The place where locks live. Each request to a store is a verb in [`verbs`]. This file sends verbs to a store, and
//! has the functions about its connections.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::Either;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::id::{InboxId, OwnerId};
use crate::base::key::LockKey;
use crate::base::process::ProcessId;

#[cfg(test)]
#[path = "../../tests/mounted/contract/mod.rs"]
mod contract;
#[cfg(test)]
#[path = "../../tests/mounted/differential/mod.rs"]
mod differential;
pub(crate) mod memory; // locks in the memory of this process
pub(crate) mod redis; // locks in Redis: keys, scripts, messages, batches
#[cfg(any(test, feature = "test-util"))]
pub(crate) mod test_wire; // what a test puts before an in-memory store
pub(crate) mod verbs; // the requests to a store, one in each file

pub(crate) use self::memory::MemoryStore;
pub(crate) use self::redis::codec::{
    EnclosedWait, ForcedMessage, ForcedReleaseListener, HandoffMessage, ListedWait, ListedWaits,
    MessageListener, OuterHold, QueueEntry, TOMBSTONE_LIFE, TOMBSTONES_FROM, UpdateWaitReply,
    lateness,
};
pub(crate) use self::redis::{PendingReply, RedisStore};
#[cfg(any(test, feature = "test-util"))]
pub(crate) use self::test_wire::{Reply, Request, Wire};
pub(crate) use self::verbs::acquire::{Acquire, AcquireReply, AcquireRequest};
pub(crate) use self::verbs::acquire_shared::{AcquireShared, AcquireSharedRequest};
pub(crate) use self::verbs::deadlock_search::{
    ClaimVictim, ListHolds, ListWaits, PublishWait, UpdateWait,
};
pub(crate) use self::verbs::inspect::{ForceRelease, Inspect, QueueLength, SeenHolders, Snapshot};
pub(crate) use self::verbs::release::{Release, ReleaseKind, ReleaseRequest, Residue};
#[cfg(test)]
pub(crate) use self::verbs::renew::KeyedHold;
pub(crate) use self::verbs::renew::{MAX_KEYS_PER_REQUEST, Renew, RenewReaders, RenewReply};
pub(crate) use self::verbs::set_depth::{DepthChange, SetDepth};
pub(crate) use self::verbs::{Presence, Verb};
pub(crate) use crate::base::error::StoreFuture;
pub(crate) use crate::base::lease_times::StoreTime;
pub(crate) use crate::base::options::Confirmation;

/// Selects a result by the kind of the store. The last one is for an in-memory store, which has no connections.
macro_rules! of_kind {
    ($store:expr, $redis:ident => $of_redis:expr, $wire:ident => $of_wire:expr, _ => $known:expr) => {
        match $store {
            Self::Redis($redis) => $of_redis,
            Self::Memory(_) => $known,
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind($wire) => $of_wire,
        }
    };
}

/// The place where locks live.
#[allow(clippy::large_enum_variant, reason = "there is one for each `Locks`")]
pub(crate) enum Store {
    Redis(RedisStore),
    Memory(MemoryStore),
    /// An in-memory store at the end of a wire.
    #[cfg(any(test, feature = "test-util"))]
    Behind(Arc<dyn Wire>),
}

/// Requests.
impl Store {
    fn redis(&self) -> Option<&RedisStore> {
        match self {
            Self::Redis(redis) => Some(redis),
            _ => None,
        }
    }

    /// Executes a verb.
    pub(crate) fn ask<V: Verb>(&self, verb: V) -> PendingReply<V> {
        Either::Right(match self {
            Self::Redis(redis) => return redis.ask(verb),
            Self::Memory(memory) => memory.ask(move |state, now| verb.apply(state, now)),
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(wire) => test_wire::ask(wire, verb),
        })
    }

    /// The property that locks must share for one request to include them: the slot in a cluster, nothing elsewhere.
    pub(crate) fn script_group(&self, key: &LockKey) -> Option<u16> {
        self.redis()?.servers.script_group(|| key.slot())
    }

    /// The property that the published waits of owners share if one server has them.
    pub(crate) fn script_group_of_waits(&self, owner: OwnerId) -> Option<u16> {
        let servers = &self.redis()?.servers;
        servers.script_group(|| redis::waits_slot(owner))
    }

    /// Waits until this number of replicas has what the server of the lock executed while the lock had this epoch. A
    /// store without a server has no replicas.
    pub(crate) fn confirm(
        &self,
        key: &LockKey,
        replicas: u32,
        within: Duration,
        generation: u64,
    ) -> StoreFuture<Confirmation> {
        match self {
            Self::Redis(redis) => {
                let beside = key.suffix();
                redis.servers.confirm(beside, replicas, within, generation)
            }
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(wire) => {
                let confirmation = wire.confirm();
                Box::pin(async move { Ok(confirmation) })
            }
            // What the memory has executed cannot be lost by a failover.
            Self::Memory(_) => Box::pin(async { Ok(Confirmation::Confirmed) }),
        }
    }
}

/// The password is not shown.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(redis) => f
                .debug_tuple("Redis")
                .field(&redis.servers.endpoint())
                .finish(),
            Self::Memory(_) => f.write_str("Memory"),
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(_) => f.write_str("Behind"),
        }
    }
}

/// Messages.
impl Store {
    /// Opens the inbox, unless it is open. From now on `listener` is notified of the locks that have moved to it.
    /// Returns false while the inbox is broken, and if there can be none. Then waiters must send requests. The listener
    /// is woken whenever that changes.
    pub(crate) fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        match self {
            Self::Redis(redis) => redis.listen(inbox, listener),
            Self::Memory(memory) => {
                memory.listen(inbox, listener);
                true
            }
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(wire) => wire.listen(inbox, listener),
        }
    }

    /// Notifies `holders` of holds that were ended by force, including those that other processes ended. This applies
    /// to every connection that is opened from now on. A message may be lost.
    pub(crate) fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        match self {
            Self::Redis(redis) => redis.watch(holders),
            Self::Memory(memory) => memory.watch(holders),
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(wire) => wire.watch(holders),
        }
    }
}

/// Connections.
impl Store {
    /// Returns whether this process may use the store. A store in Redis belongs to the process that first used it.
    pub(crate) fn belongs_to(&self, process: ProcessId) -> bool {
        self.redis()
            .is_none_or(|redis| redis.context.belongs_to(process))
    }

    /// Connects, unless there is a connection. A request without a connection does the same.
    pub(crate) fn connect(&self) -> StoreFuture<()> {
        of_kind!(self, redis => redis.connect(), wire => wire.connect(), _ => Box::pin(async { Ok(()) }))
    }

    /// Returns whether requests are answered at their first poll, and need no runtime.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Closes the connections. Later requests fail.
    pub(crate) fn close(&self) {
        of_kind!(self, redis => redis.close(), wire => wire.close(), _ => ());
    }

    /// Doubts the connection: a request about the lock that was sent at `since` has no response, and its sender cannot
    /// wait for long. If the connection has been silent since then, the next request gets another one.
    pub(crate) fn suspect(&self, key: &LockKey, since: Instant) {
        of_kind!(
            self,
            redis => drop(redis.servers.with_connector(|| key.slot(), |it| it.suspect(since))),
            wire => wire.suspect(since),
            _ => ()
        );
    }

    /// The longest time until a request about the lock that is sent now is answered or fails. This is true on any
    /// runtime that continues to poll it.
    pub(crate) fn answers_within(&self, key: &LockKey) -> Duration {
        of_kind!(
            self,
            redis => redis.answers_within(key),
            wire => wire.answers_within(),
            _ => Duration::ZERO
        )
    }

    /// Returns whether a request that is sent at `sent` is answered, or has failed, at the limit.
    pub(crate) fn answers_by(&self, key: &LockKey, sent: Instant, limit: Instant) -> bool {
        let answered_by = sent.checked_add(self.answers_within(key));
        answered_by.is_some_and(|answered_by| answered_by <= limit)
    }

    /// A number of the server that responds for the lock. It is equal for the locks of one server.
    pub(crate) fn server_of(&self, key: &LockKey) -> usize {
        let server = self.redis().and_then(|redis| {
            let servers = &redis.servers;
            servers.with_connector(|| key.slot(), |it| Arc::as_ptr(it).addr())
        });
        // The keys whose server is not known share the permits of one server.
        server.unwrap_or_default()
    }

    /// Returns whether a request about the lock can be sent immediately.
    pub(crate) fn is_connected(&self, key: &LockKey) -> bool {
        self.redis()
            .is_none_or(|redis| redis.servers.is_connected(|| key.slot()))
    }

    /// A count that changes whenever a connection for commands was opened. `None` if that is not known.
    pub(crate) fn connections(&self) -> Option<watch::Receiver<u64>> {
        of_kind!(self, redis => Some(redis.context.connections.subscribe()), wire => wire.connections(), _ => None)
    }

    /// The generations: then every hold is verified.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        match self {
            Self::Redis(redis) => redis.context.generation.watch(),
            Self::Memory(memory) => memory.generations(),
            #[cfg(any(test, feature = "test-util"))]
            Self::Behind(wire) => wire.generations(),
        }
    }

    /// A number that changes whenever a connection was up and no longer is, and when a slot has moved. What the store
    /// said in an earlier generation may no longer hold.
    pub(crate) fn generation(&self) -> u64 {
        of_kind!(self, redis => redis.context.generation.number(), wire => wire.generation(), _ => 0)
    }

    /// The generation of one lock. Times of the store from different ones must not be compared, because another server
    /// may have responded.
    pub(crate) fn generation_of(&self, key: &LockKey) -> u64 {
        match self {
            Self::Redis(redis) => redis.servers.generation_of(|| key.slot()),
            _ => self.generation(),
        }
    }
}
