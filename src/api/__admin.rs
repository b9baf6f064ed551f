//! The functions that the command `reentry` needs in addition to the public interface. They are not part of that
//! interface, and may change in any release. `reentry-cli` depends on exactly one version of this crate.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, RedisConnectionInfo, RedisError, ToRedisArgs};
use uuid::Uuid;

use crate::api::admin::{DESCRIBED_WITHIN, LockInfo, error_of};
use crate::api::builder::LocksBuilder;
use crate::api::locks::Locks;
use crate::base::error::{LockError, LostReason, Mistake, StoreError};
use crate::base::process::{self, Process, ProcessId};
use crate::hold::held::Held;
use crate::redis::source::{self, Address, HostPort};
use crate::redis::{ServerSpec, Topology, failure};
use crate::store::redis::codec::EntriesKey;
use crate::store::redis::lua;
use crate::store::{
    OuterHold, QueueLength, Renew, RenewReply, SeenHolders, Store, TOMBSTONES_FROM,
};

pub use crate::base::id::{HoldId, OwnerId};
pub use crate::hold::held::Ids;
pub use crate::hold::scope::current_owner;

/// Every script with its verb, exactly as it is sent.
pub fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let scripts = lua::ALL.iter();
    scripts.map(|script| (script.verb(), script.source()))
}

/// The builder of a program that runs entirely inside these holds, each given with its key in the store. Another
/// program has acquired the holds, and releases them when this one has ended. So the deadlock search treats them as
/// locks that enclose each acquisition.
pub fn with_outer_holds<K: AsRef<str>>(
    mut builder: LocksBuilder,
    holds: impl IntoIterator<Item = (HoldId, K)>,
) -> LocksBuilder {
    let holds = holds.into_iter().map(|(hold, key)| OuterHold {
        hold,
        key: key.as_ref().into(),
    });
    builder.outer_holds = holds.collect();
    builder
}

/// The number of locks that are read concurrently. The server may process all these requests before it serves the next
/// client.
const MAX_INSPECTED_AT_ONCE: usize = 16;

/// The keys of a lock in Redis.
#[derive(Debug)]
pub struct RedisKeys {
    /// The hash with the holders.
    pub lock: String,
    /// The sorted set with the processes that wait, and the leases of readers below 0.
    pub queue: String,
    /// The hash with what each of these processes waits for.
    pub entries: String,
}

/// The least score in a line that is not the place of a process.
pub const PLACES_END: u64 = TOMBSTONES_FROM;

/// Returns the keys of a lock.
///
/// # Errors
///
/// As for [`Admin::inspect`](crate::admin::Admin::inspect), without a request.
pub fn keys(locks: &Locks, key: &str) -> Result<RedisKeys, LockError> {
    let key = locks.engine.open_key(key)?;
    Ok(RedisKeys {
        lock: key.as_str().to_owned(),
        queue: key.queue().to_owned(),
        entries: String::from_utf8_lossy(&EntriesKey(&key).to_redis_args().concat()).into_owned(),
    })
}

/// Returns whether a field of a hash has the form of a holder.
#[must_use]
pub fn is_hold(field: &str) -> bool {
    OwnerId::parse_field(field).is_some()
}

/// Lets a lock go when its guard does, although its `min_hold` is not over.
pub fn cancel_min_hold(held: &Held) {
    held.hold.cancel_min_hold();
}

/// The states of several locks, each with its key. The waiting processes of a lock are counted only
/// where the flag says so. A lock is omitted if it is free, or if the user's key patterns do not cover it.
///
/// # Errors
///
/// As for [`Admin::inspect`](crate::admin::Admin::inspect).
pub async fn inspect_all(
    locks: &Locks,
    keys: impl IntoIterator<Item = (String, bool)>,
) -> Result<Vec<(String, LockInfo)>, LockError> {
    let engine = &locks.engine;
    let inspected = keys.into_iter().map(async |(name, counts)| {
        let key = engine.open_key(&name)?;
        let queue = match counts {
            true => QueueLength::Counted,
            false => QueueLength::NotCounted,
        };
        match engine.inspect(&key, queue).await {
            // A second request for this key would be rejected as well.
            Err(error) if refuses_key(&error) => Ok(None),
            inspected => Ok(inspected?.map(|seen| (name, LockInfo::new(engine, &key, seen)))),
        }
    });
    // In the order of the keys, whichever reply comes first.
    let mut inspected = stream::iter(inspected).buffered(MAX_INSPECTED_AT_ONCE);
    let mut infos = Vec::new();
    while let Some(info) = inspected.next().await {
        infos.extend(info?);
    }
    // Together, because many holders may be of one process.
    let holders = infos.iter_mut().flat_map(|(_, info)| &mut info.holders);
    let store = &engine.core.store;
    store.describe_holders(holders, DESCRIBED_WITHIN).await;
    Ok(infos)
}

/// The processes with these inboxes, as far as the store knows them.
pub async fn processes(locks: &Locks, inboxes: &[String]) -> HashMap<String, Process> {
    let id = |inbox: &str| Uuid::try_parse(inbox).ok().map(ProcessId::from_uuid);
    let ids = inboxes.iter().filter_map(|inbox| id(inbox));
    let known = locks.engine.core.store.processes(ids, DESCRIBED_WITHIN);
    let known = known.await;
    let named = inboxes.iter().filter_map(|inbox| {
        let process = known.get(&id(inbox)?)?;
        Some((inbox.clone(), process.clone()))
    });
    named.collect()
}

/// Sets what this process says about its locks, in the description that it sends with its next connection.
pub fn set_note(note: &str) {
    process::set_note(note.into());
}

/// Describes this process again, with its present note.
pub async fn describe(locks: &Locks) {
    // In memory there is no other process that could read it.
    if let Store::Redis(redis) = &*locks.engine.core.store {
        redis.servers.describe().await;
    }
}

/// What a process says about its locks; empty unless it is the command `reentry`.
#[must_use]
pub fn note(process: &Process) -> &str {
    &process.note
}

/// Returns whether the key holds something other than a lock.
#[must_use]
pub fn is_no_lock(error: &LockError) -> bool {
    let mistake = error.store_error().and_then(StoreError::mistake);
    mistake == Some(Mistake::NotALock)
}

/// Returns whether the server has rejected a request only because the user's key patterns do not cover its key.
#[must_use]
pub fn refuses_key(error: &LockError) -> bool {
    error.store_error().is_some_and(failure::is_about_key)
}

/// Renews a lock immediately, as its holder does periodically.
///
/// # Errors
///
/// As for [`Admin::inspect`](crate::admin::Admin::inspect), or [`LockError::Lost`] if the store no longer has the hold.
pub async fn renew(locks: &Locks, held: &Held) -> Result<(), LockError> {
    let key = locks.engine.open_key(held.key())?;
    // The lease lasts at least that long already. So this changes nothing, and shows whether a renewal is executed.
    let (hold, ttl) = (held.hold_id(), held.remaining());
    let holds = vec![(key.clone(), hold)];
    let renewed = locks.engine.core.store.ask(Renew { holds, ttl });
    let renewed = renewed.await.map_err(error_of(&key))?;
    if renewed.contains(&RenewReply::Gone) {
        return Err(LockError::Lost {
            key: key.name().to_owned(),
            reason: LostReason::Deleted,
        });
    }
    Ok(())
}

/// Returns the store's last response to the callers of this process that wait for a lock: `Ok` if the lock is held, or
/// an error. Returns `None` before the first response, and if no caller waits.
#[must_use]
pub fn last_answer(locks: &Locks, key: impl AsRef<str>) -> Option<Result<(), LockError>> {
    let key = locks.engine.open_key(key.as_ref()).ok()?;
    let answered = locks.engine.core.queues.last_answer(&key)?;
    Some(answered.map_err(error_of(&key)))
}

/// Ends the holds that an inspection has shown, if they still exist, and no other holds. Returns the holds that it has
/// ended.
///
/// # Errors
///
/// As for [`Admin::force_release`](crate::admin::Admin::force_release).
pub async fn release_seen(
    locks: &Locks,
    key: impl AsRef<str>,
    seen: &LockInfo,
) -> Result<Vec<String>, LockError> {
    let key = locks.engine.open_key(key.as_ref())?;
    let fields = seen.holders.iter();
    let seen = SeenHolders {
        fields: fields.map(|it| it.hold_id.clone().into_bytes()).collect(),
        token: seen.token,
    };
    locks.engine.force_release(&key, seen).await
}

/// Returns the usual reason why a server ends a connection before it responds, if the error is such an end.
#[must_use]
pub fn closed_at_once(error: &RedisError) -> Option<&'static str> {
    failure::closed_at_once(error)
}

/// A server, and how to connect to it.
#[derive(Clone)]
pub struct RedisServer(Address);

/// A connection to a server, and what keeps it open. Clones share it.
pub type ServerConnection = (MultiplexedConnection, Arc<dyn Any + Send + Sync>);

impl RedisServer {
    /// The host and the port, unless it is a Unix socket.
    #[must_use]
    pub fn host_port(&self) -> Option<(&str, u16)> {
        match self.0.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host, *port))
            }
            _ => None,
        }
    }

    /// Another server, which is connected to in the same way.
    #[must_use]
    pub fn with_host_port(&self, host: &str, port: u16) -> Self {
        Self(self.0.with_place(&HostPort::new(host, port)))
    }

    /// The user and the password of the URL.
    #[must_use]
    pub fn login(&self) -> &RedisConnectionInfo {
        self.0.info.redis_settings()
    }

    /// Connects as the locks do.
    ///
    /// # Errors
    ///
    /// There is no connection within this time, or the login is rejected.
    pub async fn connect(&self, limit: Duration) -> Result<ServerConnection, RedisError> {
        let opened = source::connect(&Arc::new(self.0.clone()), limit).await?;
        Ok((opened.driver, Arc::new(opened.task)))
    }
}

/// Its address, without the password.
impl fmt::Display for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.endpoint)
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The servers that a URL names, and how to connect to each of them. The other servers are found by asking these.
#[derive(Debug)]
pub enum Seeds {
    /// A single server.
    Server(RedisServer),
    /// The sentinels of a primary.
    Sentinels {
        /// The name of the primary.
        primary: String,
        /// The sentinels.
        sentinels: Vec<RedisServer>,
        /// How to connect to the primary and its replicas, wherever they are.
        server: RedisServer,
    },
    /// Servers of a cluster.
    Cluster(Vec<RedisServer>),
}

impl Seeds {
    /// Returns the servers of a builder, without connecting.
    ///
    /// # Errors
    ///
    /// [`LockError::Misuse`] for an invalid URL, and for one that names no server.
    pub fn from_builder(builder: &LocksBuilder) -> Result<Self, LockError> {
        let all = |of: &Address, places: &[HostPort]| {
            let addresses = places.iter().map(|place| of.with_place(place));
            addresses.map(RedisServer).collect()
        };
        let ServerSpec { server, topology } = builder.servers()?;
        Ok(match topology {
            Topology::One => Self::Server(RedisServer(server)),
            Topology::Sentinels {
                primary,
                sentinel,
                seeds,
            } => Self::Sentinels {
                primary,
                sentinels: all(&sentinel, &seeds),
                server: RedisServer(server),
            },
            Topology::Cluster { seeds } => Self::Cluster(all(&server, &seeds)),
        })
    }
}
