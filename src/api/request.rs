//! A request for one acquisition, with its own options.

use std::{sync::Arc, time::Duration};

use crate::{
    api::{
        engine::Engine,
        keys::{Keys, OneKey},
        with_lock::{WithLock, WithLockFlat},
    },
    base::{
        confirm::Replicas,
        error::LockError,
        options::{DepthSync, OnLost, Options, Reentrancy, WaitLimit},
    },
};

/// A request for a lock, with its own options; made by [`Locks::lock`](crate::Locks::lock).
///
/// An option that is not set comes from the [`LocksBuilder`](crate::LocksBuilder). A request can be cloned and used
/// again. Awaiting a request is the same as calling [`acquire`](Self::acquire). Keep the [guard](crate::LockGuard) that
/// it returns, since `let _ = locks.lock(…).await?` releases the lock at once.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let quick = locks.lock("report").ttl(Duration::from_secs(10)).no_wait();
/// quick.clone().run(async { /* the work */ }).await?;
/// quick.run(async { /* more of it */ }).await?;
/// # Ok(())
/// # }
/// ```
///
/// `K` is the kind of request: for one key, or for several as in a [`LockAllRequest`](crate::LockAllRequest). The
/// options and [`run`](Self::run) are the same for both.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run, acquired or awaited"]
pub struct LockRequest<K = OneKey> {
    pub(super) engine: Arc<Engine>,
    pub(super) keys: K,
    pub(super) options: Options,
}

impl<K> LockRequest<K> {
    pub(crate) fn new(engine: Arc<Engine>, keys: K) -> Self {
        Self {
            engine,
            keys,
            options: Options::default(),
        }
    }

    /// The TTL: how long the lock outlives its holder if the holder dies (default 30 s, from 20 ms to 100 years). While
    /// the holder lives, the lease is renewed every third of the TTL.
    ///
    /// The TTL must be more than twice the time that the store takes to answer: a shorter lease expires before its
    /// renewal is confirmed, and the lock is lost.
    ///
    /// On a re-entry the TTL may lengthen the lease of the hold, and never shortens it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").ttl(Duration::from_secs(5)).await?;
    /// assert!(guard.held().remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// How long to wait for the lock (default 60 s). Zero is [`no_wait`](Self::no_wait).
    ///
    /// A re-entry never waits for the lock. It waits for the store, at most for the [response
    /// timeout](crate::LocksBuilder::response_timeout), and not at all with [`DepthSync::Background`]: the lock is
    /// held, whatever depth the store has.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _elsewhere = locks.lock("order:42").await?;
    /// let late = locks.lock("order:42").wait(Duration::from_secs(5)).await;
    /// assert!(matches!(late, Err(reentry::LockError::Timeout { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait.into());
        self
    }

    /// Waits for the lock without a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let start = tokio::time::Instant::now();
    /// tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_secs(300)).await;
    ///     guard.release().await
    /// });
    /// locks.lock("order:42").wait_forever().await?;
    /// assert!(start.elapsed() >= Duration::from_secs(300));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_forever(mut self) -> Self {
        self.options.wait = Some(WaitLimit::Forever);
        self
    }

    /// Asks once, and not at all if other callers in this process already wait. If the lock cannot be taken at once,
    /// the error is [`LockError::Busy`].
    ///
    /// A re-entry still waits for the store; see [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _elsewhere = locks.lock("order:42").await?;
    /// let busy = locks.lock("order:42").no_wait().await;
    /// assert!(matches!(busy, Err(reentry::LockError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_wait(mut self) -> Self {
        self.options.wait = Some(WaitLimit::Never);
        self
    }

    /// How long the lock may be held at most, counted from its acquisition (default: no limit). After that it counts as
    /// lost. With `max_hold` equal to the TTL the lease is never renewed.
    ///
    /// `max_hold` is at least a third of the TTL. The value of the outermost acquisition applies.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// let request = locks.lock("order:42").max_hold(Duration::from_secs(60));
    /// assert!(request.run(body).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// How long the lock is held at least, counted from its acquisition (default: no longer than it is in use).
    ///
    /// If the lock is released earlier, it stays held until then, and no other caller gets it. A caller that waits
    /// enters within a heartbeat after that. This makes a scheduled job run at most once in a period, however many
    /// machines try it, even if their clocks differ. The TTL is no shorter than `min_hold`, so the guarantee also
    /// applies if the holder dies: then the lock is held for the TTL, counted from its last renewal. Only a holder that
    /// was handed the lock, and dies before its first renewal, leaves it earlier.
    ///
    /// `min_hold` is at most [`max_hold`](Self::max_hold), and cannot be set for a shared lock. The value of the
    /// outermost acquisition applies. After a [downgrade](crate::Held::downgrade) it has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let hourly = locks.lock("job:report").min_hold(Duration::from_secs(3600)).no_wait();
    /// hourly.clone().run(async { /* the job, for a second or two */ }).await?;
    /// assert!(hourly.clone().run(async {}).await.unwrap_err().is_contended());
    /// tokio::time::sleep(Duration::from_secs(3600)).await;
    /// hourly.run(async { /* the next run */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options.min_hold = Some(min_hold);
        self
    }

    /// How many replicas must have the lock before it counts; see
    /// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm). The value of the outermost acquisition applies.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// # let locks = reentry::Locks::in_memory();
    /// use reentry::Replicas;
    ///
    /// let payment = locks.lock("payment:7").confirm(Replicas::all(), Duration::from_millis(500));
    /// payment.run(async { /* what must not happen twice */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.options.confirm = Some((replicas, within));
        self
    }

    /// What happens to the body when the lock is lost (default: the body is dropped). The value of the outermost
    /// acquisition applies.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::OnLost;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let request = locks.lock("order:42").max_hold(Duration::from_secs(60));
    /// let lost = request
    ///     .on_lost(OnLost::KeepRunning)
    ///     .run(async {
    ///         let held = reentry::held("order:42")?;
    ///         tokio::time::sleep(Duration::from_secs(90)).await;
    ///         Some(held.is_lost())
    ///     })
    ///     .await?;
    /// assert_eq!(lost, Some(true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// Whether the lock may be re-entered if an enclosing call holds it (default: it may).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Reentrancy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let again = locks.lock("order:42").reentrancy(Reentrancy::Forbid);
    /// let nested = guard.scope(again.acquire()).await?;
    /// assert!(matches!(nested, Err(LockError::AlreadyHeld { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrancy(mut self, reentrancy: Reentrancy) -> Self {
        self.options.reentrancy = Some(reentrancy);
        self
    }

    /// Whether this entry and its exit wait for the store if they are nested (default: they do).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let nested = locks.lock("order:42").depth_sync(reentry::DepthSync::Background);
    /// let depth = guard.scope(nested.run(async { guard.held().depth() })).await??;
    /// assert_eq!(depth, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn depth_sync(mut self, depth_sync: DepthSync) -> Self {
        self.options.depth_sync = Some(depth_sync);
        self
    }

    /// Runs `body` under the lock, or under all the locks; see [`Locks::with_lock`](crate::Locks::with_lock) and
    /// [`Locks::lock_all`](crate::Locks::lock_all).
    ///
    /// # Errors
    ///
    /// Every [`LockError`] except `NoLocks` and `AlreadyInstalled`.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled in a tokio runtime without timers, or after completion. Outside a runtime the
    /// output is [`LockError::Config`].
    ///
    /// # Cancel safety
    ///
    /// See [`WithLock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let request = locks.lock("order:42").no_wait();
    /// assert_eq!(request.run(async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<F: Future>(self, body: F) -> WithLock<F>
    where
        K: Into<Keys>,
    {
        WithLock::new(self.engine, self.keys.into(), self.options, body)
    }

    /// Runs `body` under the lock; see [`Locks::with_lock_flat`](crate::Locks::with_lock_flat).
    ///
    /// # Errors
    ///
    /// The errors of the body, and every [`LockError`] of [`run`](Self::run), converted.
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// See [`WithLock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = reentry::Locks::in_memory();
    /// let n = locks
    ///     .lock("order:42")
    ///     .no_wait()
    ///     .run_flat(async { Ok::<u32, Box<dyn std::error::Error>>("42".parse()?) })
    ///     .await?;
    /// assert_eq!(n, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_flat<F, T, E>(self, body: F) -> WithLockFlat<F>
    where
        F: Future<Output = Result<T, E>>,
        E: From<LockError>,
        K: Into<Keys>,
    {
        WithLockFlat::new(self.run(body))
    }
}
