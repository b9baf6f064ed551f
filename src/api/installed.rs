//! The `Locks` that `#[locked]` finds by itself: the one in scope, or else the installed one.

use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use pin_project::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;

use crate::api::locks::Locks;
use crate::base::error::LockError;

static INSTALLED: OnceLock<Locks> = OnceLock::new();

task_local! {
    static SCOPED: Locks;
}

/// Returns the `Locks` in scope, or else the installed one.
pub(crate) fn current() -> Option<Locks> {
    let scoped = SCOPED.try_with(Locks::clone).ok();
    scoped.or_else(|| INSTALLED.get().cloned())
}

impl Locks {
    /// Makes this the `Locks` that `#[locked]` uses in the whole process, outside every [`scope`](Self::scope).
    ///
    /// # Errors
    ///
    /// [`LockError::Misuse`] if a `Locks` is already installed, which stays installed.
    ///
    /// # Examples
    ///
    /// ```
    /// let locks = reentry::Locks::in_memory();
    /// assert!(locks.install().is_ok());
    /// assert!(locks.install().is_err());
    /// ```
    pub fn install(&self) -> Result<(), LockError> {
        INSTALLED
            .set(self.clone())
            .map_err(|_| LockError::config("a `Locks` is already installed in this process"))
    }

    /// Runs `body`. Inside it, `#[locked]` uses this `Locks`. As with every task-local, a spawned task does not inherit
    /// it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "macros")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// use reentry::{LockError, Locks, locked};
    ///
    /// #[locked("order:{id}")]
    /// async fn ship(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// let locks = Locks::in_memory();
    /// assert_eq!(locks.scope(ship(42)).await?, 42);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "macros"))]
    /// # fn main() {}
    /// ```
    pub fn scope<F: Future>(&self, body: F) -> LocksScope<F> {
        LocksScope(SCOPED.scope(self.clone(), body))
    }
}

/// A future that runs a body with a [`Locks`] in scope.
#[pin_project]
#[must_use = "futures do nothing unless awaited"]
pub struct LocksScope<F>(#[pin] TaskLocalFuture<Locks, F>);

impl<F: Future> Future for LocksScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().0.poll(cx)
    }
}

impl<F> fmt::Debug for LocksScope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksScope").finish_non_exhaustive()
    }
}
