//! For operators, and for tests: what a lock is like in the store, and how to take it away from its holder.
//!
//! A program that only uses locks needs none of it. The commands `reentry show` and `reentry release` do the same.

use std::time::Duration;

use crate::api::engine::Engine;
use crate::api::locks::Locks;
use crate::base::error::{Failure, LockError, StoreError};
use crate::base::id::FencingToken;
use crate::base::key::LockKey;
use crate::store::{
    ForceRelease, ForcedMessage, ForcedReleaseListener as _, Inspect, QueueLength, SeenHolders,
    Snapshot,
};

pub use crate::base::process::{Holder, Process};

/// How long a query waits for the descriptions of the processes.
pub(super) const DESCRIBED_WITHIN: Duration = Duration::from_secs(1);

impl Locks {
    /// Returns the functions for operators.
    #[must_use]
    pub fn admin(&self) -> Admin {
        let locks = self.clone();
        Admin { locks }
    }
}

/// The functions for operators, of [`Locks::admin`](crate::Locks::admin).
#[derive(Clone, Debug)]
pub struct Admin {
    locks: Locks,
}

impl Admin {
    /// Returns who holds the lock, and how many wait, or `None` if it is free.
    ///
    /// It is for people and tests, not for deciding: the lock may be free when this returns. The server counts the
    /// processes that wait, which takes 2 ms or more of it for 1,000 of them. Of more processes, or of a key with more
    /// fields, it examines only a part.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if Redis does not respond. [`LockError::Misuse`] if the key holds something other
    /// than a lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let holders = locks.admin().inspect("order:42").await?.map(|info| info.holders);
    /// assert_eq!(holders.map(|holders| holders[0].depth), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: impl AsRef<str>) -> Result<Option<LockInfo>, LockError> {
        let engine = &self.locks.engine;
        let key = engine.open_key(key.as_ref())?;
        let Some(snapshot) = engine.inspect(&key, QueueLength::Counted).await? else {
            return Ok(None);
        };
        let mut info = LockInfo::new(engine, &key, snapshot);
        // A process that is not described in time is shown by its ids alone.
        let (store, holders) = (&engine.core.store, &mut info.holders);
        store.describe_holders(holders, DESCRIBED_WITHIN).await;
        Ok(Some(info))
    }

    /// Takes the lock away from those who hold it now, for an operator, or after a holder that is known to be dead.
    /// Returns `false` if the lock is free.
    ///
    /// A holder of this `Locks` learns of it at once, one elsewhere by a message. If that is lost, or over a pool, it
    /// learns of it at its next renewal, and may work until then. A hold that began after this call examined the lock
    /// is not affected. Of more than 1,000 readers, the lock is taken away from 1,000.
    ///
    /// Something other than a lock is not changed. A lock is a hash whose fields are all `<uuid>:<number>`, as this
    /// crate and the classic scripts write them, each with a count of at least 1, and perhaps the field `mode`.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if Redis does not respond. Then the lock may or may not have been taken away.
    /// [`LockError::Misuse`] if the key holds something other than a lock.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, the lock may or may not have been taken away.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _guard = locks.lock("order:42").await?;
    /// assert!(locks.admin().force_release("order:42").await?);
    /// assert!(locks.admin().inspect("order:42").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, key: impl AsRef<str>) -> Result<bool, LockError> {
        let engine = &self.locks.engine;
        let key = engine.open_key(key.as_ref())?;
        let Some(snapshot) = engine.inspect(&key, QueueLength::Counted).await? else {
            return Ok(false);
        };
        // Only the holders that were inspected, so that one that came since keeps its lock.
        let ended = engine.force_release(&key, snapshot.seen()).await?;
        Ok(!ended.is_empty())
    }
}

impl Engine {
    /// Returns the content of a lock in the store, or `None` if it is free.
    pub(super) async fn inspect(
        &self,
        key: &LockKey,
        queue: QueueLength,
    ) -> Result<Option<Snapshot>, LockError> {
        let inspect = Inspect {
            key: key.clone(),
            queue,
        };
        let inspected = self.core.store.ask(inspect).await;
        inspected.map_err(error_of(key))
    }

    /// Takes the lock away from those of the seen holders that still hold it, and returns them. Holders in this process
    /// are informed immediately.
    pub(super) async fn force_release(
        &self,
        key: &LockKey,
        seen: SeenHolders,
    ) -> Result<Vec<String>, LockError> {
        let release = ForceRelease {
            key: key.clone(),
            seen,
        };
        let ended = self.core.store.ask(release).await.map_err(error_of(key))?;
        // If a field does not belong to a holder, the request is rejected as a whole. So all of them are texts.
        let text = |field| String::from_utf8(field).ok();
        let ended: Vec<_> = ended.into_iter().filter_map(text).collect();
        // The holders of this process learn of it without the message, which may be lost.
        self.core.forced(ForcedMessage {
            key: key.as_str().to_owned(),
            holds: ended.iter().filter_map(|hold| hold.parse().ok()).collect(),
        });
        Ok(ended)
    }
}

/// The error of a request for `key`.
pub(super) fn error_of(key: &LockKey) -> impl FnOnce(StoreError) -> LockError {
    move |error| Failure::Store(error).on(key.name())
}

/// The state of a lock in the store at one moment; see [`Admin::inspect`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").acquire().await?;
/// let info = locks.admin().inspect("order:42").await?.expect("it is held");
/// assert_eq!(info.token, Some(guard.held().fencing_token()));
/// assert_eq!((info.holders.len(), info.waiters), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The holders: one writer, or the readers. There may be several writers if another program has written them. The
    /// first 1,000 are shown.
    pub holders: Vec<Holder>,
    /// Whether the holders share the lock.
    pub is_shared: bool,
    /// How long the lease lasts unless it is renewed. For readers, this is the longest of their leases. `None` for a
    /// lock without an expiry, which another program has acquired.
    pub remaining: Option<Duration>,
    /// The token that Redis gave to the hold. `None` if another program holds the lock.
    ///
    /// It distinguishes holds. For a resource, use [`Held::fencing_token`](crate::Held::fencing_token): callers of one
    /// process that continue a hold in memory have greater tokens.
    pub token: Option<FencingToken>,
    /// The number of callers in this process that wait for the lock through this [`Locks`](crate::Locks) and its
    /// clones.
    pub waiters: usize,
    /// The number of processes in the queue of the lock, this one included. A process whose own holder its waiters wait
    /// for enters the queue within a heartbeat. Of more than 1,024 processes, about that many are counted.
    pub waiting_processes: u64,
}

impl LockInfo {
    /// Creates the state of a lock. The processes of its holders are not known yet.
    pub(crate) fn new(engine: &Engine, key: &LockKey, snapshot: Snapshot) -> Self {
        let queues = &engine.core.queues;
        let is_here = |hold| queues.is_held_by(key, hold);
        Self {
            holders: snapshot.shown(is_here).collect(),
            is_shared: snapshot.is_shared,
            remaining: snapshot.remaining,
            token: snapshot.token,
            waiters: queues.len(key),
            waiting_processes: snapshot.waiting,
        }
    }
}
