//! The handle that users clone, and how `#[locked]` finds it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;
use tokio::time::Instant;

use crate::api::engine::Engine;
use crate::api::request::LockRequest;
use crate::api::with_lock::{TryWithLock, WithLock};
use crate::base::error::LockError;
use crate::base::options::Mode;
use crate::store::Inspect;

/// A handle to the locks of one Redis deployment. Build one for the program, and clone it.
///
/// Clones are cheap, and are the same `Locks`. Two that were built separately do not re-enter each other, even on the
/// same server: a nested call through the other one waits.
///
/// A `Locks` belongs to the process that first uses it. For several forked processes, fork after
/// [`build_lazy`](crate::LocksBuilder::build_lazy), and before the first use. A fork after that gets
/// [`LockError::Misuse`].
///
/// # Examples
///
/// ```
/// use reentry::{LockError, Locks};
///
/// async fn ship(locks: &Locks) -> Result<(), LockError> {
///     locks.with_lock("order:42", async { /* still ours */ }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = Locks::in_memory();
/// locks.with_lock("order:42", async { ship(&locks).await }).await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) engine: Arc<Engine>,
}

impl Locks {
    /// Runs `body` under the lock `key`, and then releases the lock.
    ///
    /// A nested call, on the same `Locks` and with the same key, re-enters the lock at once. Any other caller waits for
    /// its turn, for 60 s by default. The lease is renewed while the body runs. If the lock is lost nevertheless, the
    /// body is dropped, and the error is [`LockError::Lost`].
    ///
    /// The call returns when its release is written to the server's socket. So a lock costs one round trip, and the
    /// program may end right after it. A loss that only the release finds is an event, and no error;
    /// [`LockGuard::release`](crate::LockGuard::release) waits for the answer, and reports it. If the socket takes
    /// nothing for the response timeout (1 s by default), the release continues in the background.
    ///
    /// A task that the body spawns with `tokio::spawn` is another caller. A task of [`spawn`](crate::spawn) re-enters
    /// the lock, and keeps it until it ends, while this call returns.
    ///
    /// # Errors
    ///
    /// - [`Busy`](LockError::Busy) if another caller held the lock until the `wait` was over.
    /// - [`Unavailable`](LockError::Unavailable) if Redis did not respond for an
    ///   [`outage`](crate::LocksBuilder::outage), 5 s by default.
    /// - [`Deadlock`](LockError::Deadlock) if this call is inside another lock, and was chosen to give way in a
    ///   deadlock.
    /// - [`Lost`](LockError::Lost) if the lock was lost while the body ran.
    /// - [`Closed`](LockError::Closed) if this `Locks` was closed.
    /// - [`Misuse`](LockError::Misuse) for a bug or a wrong setting, for example an invalid key, or one that holds
    ///   something other than a lock.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled in a tokio runtime without timers, after completion, or outside a runtime once
    /// it has begun. If the first poll is outside a runtime, the output is [`LockError::Misuse`].
    ///
    /// # Cancel safety
    ///
    /// Nothing happens before the first poll. Dropping the future while it waits loses the place in the queue. Dropping
    /// it while the body runs drops the body, and then releases the lock in the background. If the runtime shuts down
    /// before that, the lock is held until its lease expires, so await the body before leaving `main`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let depth = locks
    ///     .with_lock("order:42", async {
    ///         locks.with_lock("order:42", async { reentry::held("order:42").map(|h| h.depth()) }).await
    ///     })
    ///     .await??;
    /// assert_eq!(depth, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_lock<F: Future>(&self, key: impl AsRef<str>, body: F) -> WithLock<F> {
        self.lock(key).run(body)
    }

    /// Runs `body`, which returns a `Result`, as [`with_lock`](Self::with_lock) does, with one `?` instead of two.
    ///
    /// The error type must be known: write `Ok::<_, MyError>(…)` at the end of an `async` block, where a bare `Ok(…)`
    /// is error E0283.
    ///
    /// # Errors
    ///
    /// The errors of the body, and every [`LockError`] of `with_lock`, converted into the error type of the body.
    ///
    /// # Cancel safety
    ///
    /// As for [`with_lock`](Self::with_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = reentry::Locks::in_memory();
    /// let n = locks
    ///     .try_with_lock("order:42", async {
    ///         let n: u32 = "42".parse()?;
    ///         Ok::<_, Box<dyn std::error::Error>>(n)
    ///     })
    ///     .await?;
    /// assert_eq!(n, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_with_lock<F, T, E>(&self, key: impl AsRef<str>, body: F) -> TryWithLock<F>
    where
        F: Future<Output = Result<T, E>>,
        E: From<LockError>,
    {
        self.lock(key).try_run(body)
    }

    /// Begins a request for the lock `key`, with options of its own. Nothing is sent, and the key is not checked,
    /// before it is run or awaited.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").ttl(Duration::from_secs(10)).no_wait().await?;
    /// assert_eq!(guard.held().key(), "order:42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, key: impl AsRef<str>) -> LockRequest {
        self.lock_all([key])
    }

    /// Begins a request for one of `permits` permits: at most that many callers are inside at a time, in all processes.
    ///
    /// A permit is waited for, renewed, lost and released like a lock, with the same options. All callers should name
    /// one number, because each counts those inside against its own. The key is that of a lock: while a permit is held,
    /// no writer holds it.
    ///
    /// Each request takes one more permit, also inside another one. So a caller that needs both of the last two permits
    /// may wait for itself.
    ///
    /// # Errors
    ///
    /// The errors of a lock, when the request is run or awaited. [`Misuse`](crate::LockError::Misuse) if `permits` is
    /// 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let downloads = locks.semaphore("downloads", 2);
    /// let first = downloads.clone().acquire().await?;
    /// let second = downloads.clone().acquire().await?;
    /// assert!(downloads.clone().try_acquire().await?.is_none());
    /// first.release().await?;
    /// downloads.run(async { /* at most one beside us */ }).await?;
    /// # drop(second);
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> LockRequest {
        let mut request = self.lock(key);
        request.terms.mode = Mode::Shared;
        request.terms.permits = Some(permits);
        request
    }

    /// Begins a request for several locks together: all of them, or none. Callers that take all their locks in this way
    /// never deadlock, whatever the order of `keys`.
    ///
    /// A key that is named twice counts once, and a lock that an enclosing call holds is re-entered. If all locks are
    /// free, one request takes them, and one releases them. Otherwise the caller takes them one after the other, in an
    /// order that all processes share, keeps those that it has, and waits no longer than [`wait`](LockRequest::wait)
    /// for all of them together. Inside another lock, such a caller may deadlock nevertheless; then it gets
    /// [`Deadlock`](LockError::Deadlock).
    ///
    /// If one of the locks is lost, all of them are: [`LockError::Lost`] names the first, and the others are released.
    /// Each lock has its own [fencing token](crate::Held::fencing_token).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let both = locks
    ///     .lock_all(["account:1", "account:2"])
    ///     .run(async { reentry::held("account:1").is_some() && reentry::held("account:2").is_some() })
    ///     .await?;
    /// assert!(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        LockRequest {
            engine: Arc::clone(&self.engine),
            keys: self.engine.keys(keys),
            terms: self.engine.defaults,
        }
    }

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

    /// Runs `body` with this as the `Locks` of `#[locked]`. A spawned task does not inherit it, as with every
    /// task-local.
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

    /// Returns how long a request to Redis takes now, for example for the readiness probe of a service. In a cluster,
    /// it asks one of the servers.
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](LockError::Unavailable) if there is no reply within the response timeout, which is 1 s by
    ///   default.
    /// - [`Misuse`](LockError::Misuse) if Redis rejects the request, for example because of a wrong password.
    /// - [`Closed`](LockError::Closed) after [`close`](Self::close).
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
    /// let took = locks.ping().await?;
    /// println!("ready: Redis answers after {took:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<Duration, LockError> {
        let key = self.engine.open_key(PING)?;
        let sent = Instant::now();
        let asked = self.engine.core.store.ask(Inspect::of(&key)).await;
        asked.map_err(|error| LockError::of_store(None, error))?;
        Ok(sent.elapsed())
    }
}

/// The key whose lock [`Locks::ping`] reads. It does not matter whether there is one.
const PING: &str = "ping";

/// The `Locks` of `#[locked]` in the whole process.
pub(super) static INSTALLED: OnceLock<Locks> = OnceLock::new();

task_local! {
    /// The `Locks` of `#[locked]` in a scope.
    pub(super) static SCOPED: Locks;
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
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
