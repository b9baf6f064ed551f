//! Several locks that are taken together.

use std::future::IntoFuture;
use std::pin::Pin;

use crate::api::guard::{GuardScope, Guarded, unless_busy};
use crate::api::request::LockRequest;
use crate::base::error::LockError;
use crate::base::key::SeveralKeys;
use crate::hold::held::Held;

/// A request for several locks, with its own options; made by [`Locks::lock_all`](crate::Locks::lock_all).
///
/// The request has the options of a [`LockRequest`] for one lock, and they apply to all keys. Awaiting the request
/// calls [`acquire`](LockRequest::acquire).
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
    /// Takes the locks as a guard.
    ///
    /// Locks that an enclosing body holds are re-entered. The guard itself is no scope: later calls re-enter its locks
    /// only through [`LockAllGuard::scope`].
    ///
    /// # Errors
    ///
    /// Every [`LockError`] except `NoLocks` and `AlreadyInstalled`. If a lock is lost while the caller waits for the
    /// others, the error is [`LockError::Lost`], whatever [`on_lost`](LockRequest::on_lost) says.
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

    /// Takes the locks if all of them can be taken at once, whatever [`wait`](LockRequest::wait) says. Returns `None`
    /// if another call graph holds one of the locks, or waits for it in this process.
    ///
    /// A re-entry still waits for the store; see [`wait`](LockRequest::wait).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), but never `Busy` or `Timeout`. A store that fails, or whose answer comes
    /// after the lease, is [`LockError::Store`].
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

/// Awaiting a request is [`acquire`](LockAllRequest::acquire), in a box.
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

/// Several locks that are held until this is dropped or [released](Self::release).
///
/// As with a [`LockGuard`](crate::LockGuard), nested calls re-enter the locks only inside [`scope`](Self::scope), and
/// the guard cannot stop the caller when a lock is lost. If one of the locks is lost, all of them count as lost, and
/// none is renewed any more. Keep the guard in a variable: `let _ = …` drops it at once.
///
/// # Cancel safety
///
/// Dropping the guard releases the locks in the background, also outside a runtime. If the runtime shuts down before
/// that, the locks are held until their leases expire: await [`release`](Self::release) before leaving `main`.
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
#[must_use = "the locks are released at once if the guard is not kept: `let _guard = …`, and not `let _ = …`"]
pub struct LockAllGuard(Guarded);

impl LockAllGuard {
    /// The lock on this key, as the code under it sees it; `None` if the guard has no lock on this key.
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

    /// All the locks, each once: first the re-entered locks, then the others in the order in which they were taken.
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

    /// Runs `body` under the locks. Nested calls re-enter them, and the loss of one of them ends the body as in
    /// [`LockRequest::run`]. The locks stay held afterwards.
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
    /// Dropping the future drops the body; the locks stay with the guard.
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

    /// Releases the locks and waits for the store, but no longer than the response timeout. After that the release
    /// continues in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the locks was lost before, unless its [`OnLost`](crate::OnLost) is `KeepRunning`.
    /// [`LockError::Store`] if the store refuses to release a lock: then that lock is held until its lease expires.
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
