//! The list of held locks, for operators.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::api::engine::Engine;
use crate::api::inspect::{DESCRIBED_WITHIN, LockInfo};
use crate::api::locks::{Locks, on};
use crate::base::error::LockError;
use crate::base::glob;
use crate::base::key::LockKey;
use crate::store::records::{Cursor, Scan, Scanned};
use crate::store::{Glance, Store};

/// The default number of keys that a page examines. A current server needs less than a millisecond for it.
const PAGE: usize = 100;

/// The number of locks that are read concurrently. The server may process all these requests before it serves the next
/// client.
const AT_ONCE: usize = 16;

impl Locks {
    /// Lists the held locks whose keys match a pattern, page by page, for an administration page or a command line.
    /// Nothing is sent before the first page.
    ///
    /// In a pattern, `*` matches any characters, and `?` matches any one byte. `[ab]` and `[a-z]` match one of the
    /// bytes named, and `[^ab]` matches one byte that is not named. `\` removes the special meaning of the next
    /// character. The [prefix](crate::LocksBuilder::prefix) is not part of the pattern, and is matched literally.
    ///
    /// The list uses [`SCAN`](https://redis.io/docs/latest/commands/scan/). If there are several primaries, it scans
    /// one after the other. A lock that is held the whole time is listed at least once, unless it moves to another
    /// server meanwhile, by a failover or with its slot. A lock that is acquired or released meanwhile may be listed or
    /// not. A lock may be listed twice, on different pages. Each lock is shown as it was when its page was read, so the
    /// list is not a snapshot of one moment.
    ///
    /// The whole list examines every key of the servers, including keys that are not locks. So use it for people and
    /// for reports, not for what a program does all the time.
    ///
    /// A lock is a hash that has a field of the form `<uuid>:<integer>` whose value is a number. The classic scripts
    /// also write this form. So the list includes locks that other programs acquired with them, if they have up to 64
    /// fields. Other hashes are omitted, as are locks whose fields another program names differently. Keys that are not
    /// text are omitted too, but [counted](LockList::unnamed). [`inspect`](Self::inspect) shows every lock.
    ///
    /// A user with an ACL also needs `+scan +hkeys +zcount`, and `+dbsize` for the [progress](LockList::progress).
    /// `SCAN` also returns the keys of other users. Keys that the key patterns of the ACL do not cover are omitted. A
    /// lock is also omitted if the patterns do not cover its `reentry:…` keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _order = locks.lock("order:42").await?;
    /// let _stock = locks.lock("stock:7").await?;
    ///
    /// let mut list = locks.list("order:*");
    /// while let Some(page) = list.next_page().await? {
    ///     for lock in page {
    ///         println!("{} since {:?}", lock.key, lock.info.holders.first().and_then(|it| it.held_for));
    ///         assert_eq!(lock.key, "order:42");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, pattern: impl AsRef<str>) -> LockList {
        let engine = self.shared_engine();
        let pattern = pattern.as_ref();
        LockList {
            full: glob::after_prefix(engine.prefix(), pattern).into(),
            pattern: pattern.to_owned(),
            engine,
            page: PAGE,
            at: Some(Cursor::default()),
            progress: 0.0,
            unnamed: 0,
        }
    }
}

/// A list of locks that is read page by page. See [`Locks::list`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let _guard = locks.lock_all(["order:1", "order:2", "order:3"]).await?;
/// let mut list = locks.list("*").page(2);
/// let first = list.next_page().await?.expect("a page");
/// assert_eq!(first.len(), 2);
/// assert!(list.progress() < 1.0);
/// let last = list.next_page().await?.expect("another one");
/// assert_eq!((last.len(), list.progress()), (1, 1.0));
/// assert!(list.next_page().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[must_use = "a list sends nothing until a page is requested"]
pub struct LockList {
    engine: Arc<Engine>,
    pattern: String,
    /// The pattern with the prefix.
    full: Arc<str>,
    page: usize,
    /// The position at which the next page begins. `None` at the end.
    at: Option<Cursor>,
    progress: f64,
    unnamed: u64,
}

/// A lock of a list.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let _readers = (locks.lock("report").shared().await?, locks.lock("report").shared().await?);
/// let page = locks.list("report").next_page().await?.expect("a page");
/// assert_eq!((page[0].key.as_str(), page[0].holders), ("report", 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedLock {
    /// The key, without the [prefix](crate::LocksBuilder::prefix).
    pub key: String,
    /// The number of holders. `info` shows the first 16.
    pub holders: u64,
    /// The state of the lock. If more than 64 processes wait, `waiting_processes` also counts dead processes whose turn
    /// has not come yet.
    pub info: LockInfo,
}

impl LockList {
    /// Sets the approximate number of keys that a page examines, including keys that are not locks or do not match
    /// (default: 100). The server does nothing else meanwhile. Values below 1 count as 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # let locks = reentry::Locks::in_memory();
    /// let list = locks.list("order:*").page(1_000);
    /// # drop(list);
    /// ```
    pub fn page(mut self, keys: usize) -> Self {
        self.page = keys.max(1);
        self
    }

    /// Returns the next page, or `None` after the last one. A page may be empty although others follow.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if a server does not respond, and [`LockError::Misuse`] if the user lacks a permission.
    /// The next call requests the same page again. [`LockError::Closed`] after [`close`](Locks::close).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. The next call requests the same page again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut waiting = 0;
    /// let mut list = locks.list("*");
    /// while let Some(page) = list.next_page().await? {
    ///     waiting += page.iter().map(|lock| lock.info.waiting_processes).sum::<u64>();
    /// }
    /// assert_eq!(waiting, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_page(&mut self) -> Result<Option<Vec<ListedLock>>, LockError> {
        let Some(from) = self.at.clone() else {
            return Ok(None);
        };
        self.engine.check_open_for(&self.pattern)?;
        let scan = Scan {
            pattern: Arc::clone(&self.full),
            count: self.page,
            from,
        };
        let Scanned {
            names,
            unnamed,
            next,
            progress,
        } = self
            .engine
            .store()
            .scan(scan)
            .await
            .map_err(|source| LockError::of_store(None, source))?;
        let mut page = self.glances(&names).await?;
        let holders = page.iter_mut().flat_map(|lock| &mut lock.info.holders);
        let store = self.engine.store();
        store.describe_holders(holders, DESCRIBED_WITHIN).await;
        self.at = next;
        self.progress = progress;
        self.unnamed += unnamed;
        Ok(Some(page))
    }

    /// Returns the part of all keys that the pages have examined so far, from 0 to 1. It is an estimate, and exactly 1
    /// at the end.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut list = locks.list("*");
    /// assert_eq!(list.progress(), 0.0);
    /// list.next_page().await?;
    /// assert_eq!(list.progress(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.progress
    }

    /// Returns the number of hashes that the pages have omitted so far because their keys are not UTF-8. Some may be
    /// locks of other programs, and some may be counted twice.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut list = locks.list("*");
    /// list.next_page().await?;
    /// assert_eq!(list.unnamed(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Returns the locks with these names in the store, as far as they exist.
    async fn glances(&self, names: &[String]) -> Result<Vec<ListedLock>, LockError> {
        // A name may also occur twice within one page.
        let mut seen = HashSet::with_capacity(names.len());
        let keys = names.iter().filter(|name| seen.insert(*name));
        let keys: Vec<_> = keys.filter_map(|name| self.lock_named(name)).collect();
        let glances = keys.into_iter().map(|key| glance(&self.engine, key));
        let mut glances = stream::iter(glances).buffered(AT_ONCE);
        let mut locks = Vec::new();
        while let Some(glanced) = glances.next().await {
            match glanced {
                // `SCAN` ignores key patterns. A second request for this key would be rejected as well.
                Err(error) if error.store_error().is_some_and(Store::refuses_key) => {}
                glanced => locks.extend(glanced?),
            }
        }
        Ok(locks)
    }

    /// Returns the key of the lock with this name in the store, or `None` if no such lock can exist.
    fn lock_named(&self, name: &str) -> Option<LockKey> {
        let name = name.strip_prefix(self.engine.prefix())?;
        self.engine.key(name).ok()
    }
}

/// Returns the state of a lock at a bounded cost, or `None` if the key does not look like a lock.
pub(super) async fn glance(engine: &Engine, key: LockKey) -> Result<Option<ListedLock>, LockError> {
    let glanced = engine.store().ask(Glance { key: key.clone() });
    let glanced = glanced.await.map_err(on(&key))?;
    Ok(glanced.map(|glance| ListedLock {
        holders: glance.holders,
        info: LockInfo::new(engine, &key, glance.snapshot),
        key: key.name().to_owned(),
    }))
}

impl fmt::Debug for LockList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockList")
            .field("pattern", &self.pattern)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
