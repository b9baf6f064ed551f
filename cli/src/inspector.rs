//! The locks that the servers have: page by page, or one with its queue.
//!
//! Any data may be at a key, so no request reads much of it. A key counts as a lock by the names of its fields, of
//! which there are few unless readers share it. Only then the crate inspects it.
//!
//! | file | what it is |
//! |---|---|
//! | `list` | the locks of all primaries, page by page |
//! | `queue` | the processes that wait for one lock |

use std::cmp::Reverse;

use anyhow::anyhow;
use futures_util::future;
use redis::{FromRedisValue, ToRedisArgs};
use reentry::__admin::{self, PLACES_END, RedisKeys};
use reentry::Locks;
use reentry::admin::{Holder, LockInfo};

use crate::args::Global;
use crate::connect;
use crate::servers::{self, Answer, Server, Unreachable, accepted};
use crate::view::LockView;

pub(crate) mod list;
pub(crate) mod queue;

/// The maximum number of fields of a lock with a single holder, whatever else is in its hash, and the maximum length of
/// a queue in which only the living processes are counted.
const FEW: u64 = 64;

/// The maximum number of holders that are shown.
const MAX_HOLDERS_SHOWN: usize = 16;

/// The number of keys about which a server is asked concurrently.
const AT_ONCE: usize = 16;

/// The least score of a reader's lease in a line; no clock gives such a time.
const LEASES_FROM: &str = "(-9007199254740992";

/// The locks of the servers of `--url`.
#[derive(Clone)]
pub(crate) struct Inspector {
    locks: Locks,
    primaries: Vec<Server>,
    global: Global,
}

/// A key that may have a lock.
struct Found {
    key: String,
    /// The number of holders, unless the inspection finds all of them.
    holders: Option<u64>,
    /// The number of places in the queue. `None` if another server has the key by now.
    places: Option<u64>,
}

impl Inspector {
    /// Connects to the servers.
    ///
    /// # Errors
    ///
    /// As for [`connect::locks`].
    pub(crate) async fn connect(global: &Global) -> anyhow::Result<Self> {
        let locks = connect::locks(global).await?;
        Self::new(locks, global).await
    }

    /// Looks at the locks of the servers to which these `Locks` are connected.
    ///
    /// # Errors
    ///
    /// [`Unreachable`] if no server responds.
    pub(crate) async fn new(locks: Locks, global: &Global) -> anyhow::Result<Self> {
        Ok(Self {
            locks,
            primaries: servers::primaries(global).await?,
            global: global.clone(),
        })
    }

    /// These locks, on the present primaries.
    #[cfg(feature = "watch")]
    pub(crate) async fn again(&self) -> anyhow::Result<Self> {
        Self::new(self.locks.clone(), &self.global).await
    }

    /// Returns one lock; `None` if it is free. A key that does not look like a lock may be the lock of another program,
    /// which still excludes others.
    pub(crate) async fn one(&self, key: &str) -> anyhow::Result<Option<LockView>> {
        let keys = __admin::keys(&self.locks, key)?;
        let found = match self.server_of(&keys).await {
            Ok(server) => self.found(server, key.to_owned()).await?,
            Err(_) => None,
        };
        let Some(info) = self.locks.admin().inspect(key).await? else {
            return Ok(None);
        };
        let listed = found.and_then(|found| view(found, info.clone()));
        Ok(Some(listed.unwrap_or_else(|| LockView::of(key, info))))
    }

    /// The type of the value at a key; `None` if the user may not ask for it.
    pub(crate) async fn type_at(&self, key: &str) -> anyhow::Result<Option<String>> {
        let keys = __admin::keys(&self.locks, key)?;
        let server = self.server_of(&keys).await?;
        Ok(ask(server, &["TYPE", &keys.lock]).await?.ok())
    }

    /// The primary that has a lock.
    async fn server_of(&self, keys: &RedisKeys) -> anyhow::Result<&Server> {
        let mut failure = anyhow!("no server has the slot of `{}`", keys.lock);
        for server in &self.primaries {
            match server.ask::<u64>(&["HLEN", &keys.lock]).await {
                Ok(answer) if is_elsewhere(&answer) => {}
                Ok(_) => return Ok(server),
                Err(error) => failure = error,
            }
        }
        Err(failure.context(Unreachable))
    }

    /// Returns whether the key may have a lock, by the names of its fields.
    async fn found(&self, server: &Server, key: String) -> anyhow::Result<Option<Found>> {
        // No lock can exist at such a key.
        let Ok(RedisKeys { lock, queue, .. }) = __admin::keys(&self.locks, &key) else {
            return Ok(None);
        };
        let places = places(&queue);
        let (fields, places) = future::try_join(
            ask::<u64>(server, &["HLEN", &lock]),
            ask::<u64>(server, &places),
        )
        .await?;
        if is_elsewhere(&fields) || is_elsewhere(&places) {
            return Ok(Some(Found {
                key,
                holders: None,
                places: None,
            }));
        }
        if is_refused(&fields) || is_refused(&places) {
            return Ok(None);
        }
        let fields = read(fields)?.unwrap_or_default();
        let places = read(places)?.unwrap_or_default();
        let mut holders = None;
        if fields > FEW {
            holders = readers(server, &lock, &queue)
                .await?
                .map(|besides| fields - besides);
            if holders.is_none() {
                return Ok(None);
            }
        } else {
            let names = ask::<Vec<Vec<u8>>>(server, &["HKEYS", &lock]).await?;
            let names = read(names)?.unwrap_or_default();
            let is_hold = |name: &Vec<u8>| str::from_utf8(name).is_ok_and(__admin::is_hold);
            if !names.iter().any(is_hold) {
                return Ok(None);
            }
        }
        Ok(Some(Found {
            key,
            holders,
            places: Some(places),
        }))
    }

    /// Inspects the keys that may be locks.
    async fn inspected(&self, found: Vec<Found>) -> anyhow::Result<Vec<LockView>> {
        let counts = |found: &Found| found.places.is_none_or(|it| (1..=FEW).contains(&it));
        let keys: Vec<_> = found
            .iter()
            .map(|it| (it.key.clone(), counts(it)))
            .collect();
        let infos = __admin::inspect_all(&self.locks, keys).await?;
        let mut found = found.into_iter();
        let views = infos.into_iter().filter_map(|(key, info)| {
            let found = found.find(|found| found.key == key)?;
            view(found, info)
        });
        Ok(views.collect())
    }
}

/// Returns how many fields of a big hash are not readers of a lock; `None` if it is no lock. Only readers can be so many
/// holders.
async fn readers(server: &Server, lock: &str, line: &str) -> anyhow::Result<Option<u64>> {
    let has = async |field: &str| {
        let has = ask::<u64>(server, &["HEXISTS", lock, field]).await?;
        Ok::<_, anyhow::Error>(read(has)?.unwrap_or_default())
    };
    let range = [
        "ZRANGE",
        line,
        LEASES_FROM,
        "(0",
        "BYSCORE",
        "LIMIT",
        "0",
        "1",
    ];
    let first: Vec<String> = read(ask(server, &range).await?)?.unwrap_or_default();
    match first.first().and_then(|member| member.strip_prefix('r')) {
        Some(hold) if has(hold).await? == 1 => Ok(Some(has("mode").await?)),
        _ => Ok(None),
    }
}

/// The lock as it is shown; `None` if the values of its fields are not those of a lock.
fn view(found: Found, mut info: LockInfo) -> Option<LockView> {
    let is_hold = |holder: &Holder| holder.owner.is_some() && holder.depth > 0;
    info.holders.retain(is_hold);
    let count = found.holders.unwrap_or(info.holders.len() as u64);
    if info.holders.is_empty() {
        return None;
    }
    // The readers whose leases expire last come first.
    info.holders.sort_by_key(|holder| Reverse(holder.remaining));
    info.holders.truncate(MAX_HOLDERS_SHOWN);
    if let Some(places) = found.places.filter(|places| *places > FEW) {
        info.waiting_processes = places;
    }
    Some(LockView::new(found.key, count, info))
}

/// The command that counts the places in a line.
fn places(line: &str) -> [String; 4] {
    let words = ["ZCOUNT", line, "0"].map(str::to_owned);
    let [command, line, from] = words;
    [command, line, from, format!("({PLACES_END}")]
}

/// Sends a command to one server.
///
/// # Errors
///
/// [`Unreachable`] if the server does not respond.
async fn ask<T: FromRedisValue>(
    server: &Server,
    words: &[impl ToRedisArgs],
) -> anyhow::Result<Answer<T>> {
    server
        .ask(words)
        .await
        .map_err(|error| error.context(Unreachable))
}

/// Whether another server of the cluster has the key.
fn is_elsewhere<T>(answer: &Answer<T>) -> bool {
    let codes = ["MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"];
    let is_code = |said: &String| codes.iter().any(|code| said.starts_with(code));
    answer.as_ref().is_err_and(is_code)
}

/// Whether the key patterns of the user do not cover the key. `SCAN` ignores them.
fn is_refused<T>(answer: &Answer<T>) -> bool {
    let is_of_key = |said: &String| said.starts_with("NOPERM") && said.contains(" key");
    answer.as_ref().is_err_and(is_of_key)
}

/// The reply about a key; `None` if its value has another type.
fn read<T>(answer: Answer<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(said) if said.starts_with("WRONGTYPE") => Ok(None),
        answer => accepted(answer).map(Some),
    }
}
