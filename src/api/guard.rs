//! A lock as a value, for code that does not fit into one body.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

use crate::api::request::LockRequest;
use crate::base::error::LockError;
use crate::hold::body::{DelayedError, EnteredBody};
use crate::hold::entry::{BodyEntries, Entry};
use crate::hold::held::Held;
use crate::hold::scope::HeldLocks;

impl LockRequest {
    /// Acquires the lock, or all the locks, as a guard: for work that is no single body.
    ///
    /// Inside a body that holds the same key, this is a re-entry. Later calls re-enter the lock only through
    /// [`LockGuard::scope`].
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run). If one of several locks is lost while the caller waits for the others, the
    /// error is [`LockError::Lost`], whatever [`on_lost`](Self::on_lost) says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the place in the queue. A lock that it has already got is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").acquire().await?;
    /// assert!(locks.admin().inspect("order:42").await?.is_some());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        match self.engine.enter(self.keys, self.terms).await {
            Ok(mut entry) => {
                // From here on no body is inside that a loss could end.
                entry.convert_to_guard();
                let held = entry.held();
                Ok(LockGuard { entry, held })
            }
            // If a loss must end a body around the caller, the caller makes no further step.
            Err(error) => Err(DelayedError::new(error).await),
        }
    }

    /// Acquires the lock only if it is free. Returns `None` if another call graph holds it, or one of several locks, or
    /// waits for it in this process, whatever [`wait`](Self::wait) says.
    ///
    /// An attempt right after a release in this process, for example of a dropped guard, waits for the answer to that
    /// release.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), but never [`LockError::Busy`].
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
    /// let first = locks.lock("nightly").try_acquire().await?;
    /// assert!(first.is_some());
    /// assert!(locks.lock("nightly").try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "try_lock")]
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        match self.no_wait().acquire().await {
            Err(LockError::Busy { .. }) => Ok(None),
            acquired => acquired.map(Some),
        }
    }
}

/// Awaiting a request is the same as calling [`acquire`](LockRequest::acquire), in a box.
impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// A guard that holds a lock, or several locks together, until it is dropped or [released](Self::release).
///
/// Prefer a body ([`run`](LockRequest::run)): it ends when the lock is lost, and nested calls re-enter. Beside a guard,
/// calls re-enter the lock only inside [`scope`](Self::scope), and work goes on after a loss unless it looks at
/// [`Held::lost`]. If one of several locks is lost, all of them are.
///
/// **Keep the guard in a variable.** `let _ = locks.lock("order:42").await?;` releases the lock at the end of that
/// statement. Write `let _guard = …`, and enable the lint `let_underscore_drop`, which no default does;
/// `clippy::let_underscore_lock` does not know this guard.
///
/// ```compile_fail
/// #![deny(let_underscore_drop)]
/// # async fn example(locks: reentry::Locks) -> Result<(), reentry::LockError> {
/// let _ = locks.lock("order:42").await?; // error: non-binding let on a type that has a destructor
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the guard releases the lock in the background, even outside a runtime; in memory it is free at once. If the
/// runtime shuts down before that, the lock is held until its lease expires, so await [`release`](Self::release) before
/// leaving `main`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").await?;
/// let nested = guard.scope(async { locks.with_lock("order:42", async { 1 }).await }).await?;
/// assert_eq!(nested?, 1);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released immediately if the guard is not kept: write `let _guard = …`, not `let _ = …`"]
pub struct LockGuard {
    entry: Entry,
    /// The locks of the entry, in the same order.
    held: HeldLocks,
}

impl LockGuard {
    /// Returns the lock, as code inside it sees it. Of several locks, it is the first of [`all`](Self::all).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// assert_eq!(guard.held().key(), "order:42");
    /// assert_eq!(guard.held().depth(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held(&self) -> &Held {
        // A request without a key is rejected, and each key has one hold.
        &self.held[0]
    }

    /// Returns the locks, each once: first the re-entered locks, then the others in the order in which they were
    /// acquired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock_all(["account:1", "account:2", "account:1"]).await?;
    /// assert_eq!(guard.all().len(), 2);
    /// let second = guard.all().iter().find(|held| held.key() == "account:2");
    /// assert!(second.is_some_and(|held| !held.is_lost()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn all(&self) -> &[Held] {
        &self.held
    }

    /// Whether a loss ends the body of a [`scope`](Self::scope).
    pub(super) fn aborts_on_loss(&self) -> bool {
        self.entry.holds().iter().any(|hold| hold.aborts_on_loss())
    }

    /// Runs `body` inside the lock, or all the locks: nested calls re-enter them, and a loss ends the body, as in
    /// [`Locks::with_lock`](crate::Locks::with_lock). The guard still holds the locks afterwards.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if a lock is lost before the body has finished.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after completion.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body. The guard keeps the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let depth = guard
    ///     .scope(async {
    ///         let _nested = locks.lock("order:42").await?;
    ///         Ok::<_, reentry::LockError>(guard.held().depth())
    ///     })
    ///     .await??;
    /// assert_eq!(depth, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, body: F) -> GuardScope<'_, F> {
        let span = self.entry.span().unless_elsewhere();
        GuardScope {
            // The entry stays with the guard, so the end of this body releases nothing.
            body: EnteredBody::new(self.entry.frame(), span, BodyEntries::new(), body),
            guard: PhantomData,
        }
    }

    /// Releases the lock, or all the locks, and waits for the answer of Redis, for at most the response timeout. After
    /// that, the release continues in the background.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if a lock was lost earlier, unless its [`OnLost`](crate::OnLost) is `KeepRunning`.
    /// - [`LockError::Misuse`] or [`LockError::Unavailable`] if Redis rejects the release. Then the lock is held until
    ///   its lease expires.
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
    /// let guard = locks.lock("order:42").await?;
    /// guard.release().await?;
    /// assert!(locks.admin().inspect("order:42").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), LockError> {
        let mut holds = self.entry.holds().iter();
        // A loss that must end the body is the error, whatever the release would say. The entry is dropped then,
        // which releases it in the background.
        let released = match holds.find_map(|hold| hold.abort_error()) {
            Some(error) => Err(error),
            None => self.entry.exit().await,
        };
        match released {
            Ok(()) => Ok(()),
            Err(error) => Err(DelayedError::new(error).await),
        }
    }
}

/// A future that runs a body under a guard.
#[pin_project]
#[must_use = "futures do nothing unless awaited"]
pub struct GuardScope<'a, F: Future> {
    #[pin]
    body: EnteredBody<F>,
    guard: PhantomData<&'a LockGuard>,
}

impl<F: Future> Future for GuardScope<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().body.poll(cx)
    }
}

impl<F: Future> fmt::Debug for GuardScope<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardScope").finish_non_exhaustive()
    }
}
