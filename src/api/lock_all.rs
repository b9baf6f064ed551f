//! Several locks that are acquired together.

use std::future::IntoFuture;
use std::pin::Pin;

use crate::api::guard::{GuardScope, Guarded, unless_busy};
use crate::api::request::LockRequest;
use crate::base::error::LockError;
use crate::base::key::SeveralKeys;
use crate::hold::held::Held;

/// A request for several locks, with its own options. [`Locks::lock_all`](crate::Locks::lock_all) returns one.
///
/// The request has the options of a [`LockRequest`] for one lock. They apply to all keys. Awaiting the request calls
/// [`acquire`](LockRequest::acquire).
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let transfer = locks.lock_all(["account:1", "account:2"]).ttl(Duration::from_secs(10));
/// transfer.run(async { /* move the money */ }).await?;
/// # Ok(())
/// # }
/// ```
pub type LockAllRequest = LockRequest<SeveralKeys>;

impl LockAllRequest {
    /// Acquires the locks as a guard.
    ///
    /// Locks that an enclosing body holds are re-entered. The guard itself provides no scope. Later calls re-enter its
    /// locks only through [`LockAllGuard::scope`].
    ///
    /// # Errors
    ///
    /// Every [`LockError`] except `NoLocks` and `AlreadyInstalled`. If a lock is lost while the caller waits for the
    /// others, the error is [`LockError::Lost`], regardless of [`on_lost`](LockRequest::on_lost).
    ///
    /// # Panics
    ///
    /// As for [`run`](LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the place in the queue. Locks that the store has already granted are released in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2"]).acquire().await?;
    /// assert!(locks.inspect("account:2").await?.is_some());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(self) -> Result<LockAllGuard, LockError> {
        Guarded::acquire(self).await.map(LockAllGuard)
    }

    /// Acquires the locks only if all of them are free, regardless of [`wait`](LockRequest::wait). Returns `None` if
    /// another call graph holds one of the locks, or waits for it in this process.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), but never `Busy` or `Timeout`. If the store fails, or responds after the
    /// lease has expired, the error is [`LockError::Unavailable`].
    ///
    /// # Panics
    ///
    /// As for [`run`](LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _elsewhere = locks.lock("account:2").await?;
    /// assert!(locks.lock_all(["account:1", "account:2"]).try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(self) -> Result<Option<LockAllGuard>, LockError> {
        unless_busy(self.no_wait().acquire().await)
    }
}

/// Awaiting a request is the same as calling [`acquire`](LockAllRequest::acquire). The future is boxed.
///
/// # Cancel safety
///
/// As for [`acquire`](LockAllRequest::acquire).
impl IntoFuture for LockAllRequest {
    type Output = Result<LockAllGuard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// A guard that holds several locks until it is dropped or [released](Self::release).
///
/// As with a [`LockGuard`](crate::LockGuard), nested calls re-enter the locks only inside [`scope`](Self::scope), and
/// the guard cannot stop the caller when a lock is lost. If one of the locks is lost, all of them count as lost, and
/// none of them is renewed after that. Keep the guard in a variable. `let _ = …` drops it immediately.
///
/// # Cancel safety
///
/// Dropping the guard releases the locks in the background, even outside a runtime. If the runtime shuts down before
/// that, the locks are held until their leases expire. Await [`release`](Self::release) before leaving `main`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock_all(["account:1", "account:2"]).await?;
/// let nested = guard.scope(async { locks.with_lock("account:1", async { 1 }).await }).await?;
/// assert_eq!(nested?, 1);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released immediately if the guard is not kept: write `let _guard = …`, not `let _ = …`"]
pub struct LockAllGuard(Guarded);

impl LockAllGuard {
    /// Returns the lock with this key, as code inside it sees it, or `None` if the guard has no lock with this key.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2"]).await?;
    /// let token = guard.held("account:1").map(|held| held.fencing_token());
    /// assert!(token.is_some());
    /// assert!(guard.held("account:3").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held(&self, key: impl AsRef<str>) -> Option<&Held> {
        let key = key.as_ref();
        self.0.held.iter().find(|held| held.key() == key)
    }

    /// Iterates over the locks, each once: first the re-entered locks, then the others in the order in which they were
    /// acquired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2", "account:1"]).await?;
    /// assert_eq!(guard.iter().count(), 2);
    /// assert!(guard.iter().all(|held| !held.is_lost()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.0.held.iter()
    }

    /// Runs `body` under the locks. Nested calls re-enter them. The loss of one of them ends the body, as in
    /// [`LockRequest::run`]. The locks are still held afterwards.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the locks is lost before the body has finished.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after completion.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body. The guard keeps the locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2"]).await?;
    /// let inside = guard.scope(async { reentry::held("account:2").is_some() }).await?;
    /// assert!(inside);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, body: F) -> GuardScope<'_, F> {
        self.0.scope(body)
    }

    /// Releases the locks, and waits for the store to confirm it, but no longer than the response timeout. After that,
    /// the release continues in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the locks was lost earlier, unless its [`OnLost`](crate::OnLost) is `KeepRunning`.
    /// [`LockError::Misuse`] or [`LockError::Unavailable`] if the store rejects the release of a lock. Then that lock is
    /// held until its lease expires.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background, as long as the runtime runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2"]).await?;
    /// guard.release().await?;
    /// assert!(locks.inspect("account:1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), LockError> {
        self.0.release().await
    }
}
