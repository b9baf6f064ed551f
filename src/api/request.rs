//! A request for one acquisition, and its options.

use std::sync::Arc;
use std::time::Duration;

use crate::api::engine::Engine;
use crate::api::with_lock::{TryWithLock, WithLock};
use crate::base::error::LockError;
use crate::base::key::Keys;
use crate::base::options::{LockOptions, Retry, WaitLimit};
use crate::base::options::{Mode, OnLost};

/// A request for a lock, for a permit, or for several locks together, with its own options.
/// [`Locks::lock`](crate::Locks::lock), [`semaphore`](crate::Locks::semaphore) and
/// [`lock_all`](crate::Locks::lock_all) return one. The options apply to all its locks.
///
/// An option that is not set comes from the [`LocksBuilder`](crate::LocksBuilder). A request can be cloned and used
/// again. Awaiting a request is the same as calling [`acquire`](Self::acquire). Keep the [guard](crate::LockGuard) that
/// it returns: `let _ = locks.lock(…).await?` releases the lock immediately.
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
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run, acquired or awaited"]
pub struct LockRequest {
    pub(super) engine: Arc<Engine>,
    pub(super) keys: Keys,
    pub(super) terms: LockOptions,
}

impl LockRequest {
    pub(crate) fn new(engine: Arc<Engine>, keys: Keys) -> Self {
        let terms = engine.defaults;
        Self {
            engine,
            keys,
            terms,
        }
    }

    /// Sets how long others wait if this process crashes (default 30 s, from 20 ms to 100 years). While it is alive, the
    /// lease is renewed every third of that time, so it is also how long an outage the lock survives: two thirds of it.
    ///
    /// The TTL must be more than twice the response time of the store. A shorter lease expires before its renewal is
    /// confirmed, and the lock is lost.
    ///
    /// On a re-entry, the TTL may lengthen the lease of the hold, but never shortens it. The re-entry does not wait for
    /// the longer lease.
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
        (self.terms.ttl, self.terms.own_ttl) = (ttl, Some(ttl));
        self
    }

    /// Sets how long to wait for the lock (default 60 s). Zero is the same as [`no_wait`](Self::no_wait).
    /// [`Duration::MAX`] is no limit.
    ///
    /// A re-entry never waits.
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
    /// assert!(matches!(late, Err(reentry::LockError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = wait.into();
        self
    }

    /// Makes one attempt, and none at all if other callers in this process already wait. If the lock cannot be acquired
    /// immediately, the error is [`LockError::Busy`]. If this process is releasing the lock, the attempt follows when the
    /// first request of the release is answered.
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
        (self.terms.wait, self.terms.retry) = (WaitLimit::Never, None);
        self
    }

    /// Makes up to `attempts` single attempts, each as with [`no_wait`](Self::no_wait), and sleeps for `interval` between
    /// them (default: one request, which waits in the queue). If the last attempt finds the lock busy as well, the error
    /// is [`LockError::Busy`].
    ///
    /// It replaces [`wait`](Self::wait), takes no place in the queue, and is no part of the deadlock search. So callers
    /// that wait go first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _elsewhere = locks.lock("order:42").await?;
    /// let tried = locks.lock("order:42").retry(3, Duration::from_millis(50)).await;
    /// assert!(matches!(tried, Err(reentry::LockError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, attempts: u32, interval: Duration) -> Self {
        self.terms.retry = Some(Retry { attempts, interval });
        self
    }

    /// Limits how long the lock may be held, counted from its acquisition (default: no limit). After that, it counts as
    /// lost. If `max_hold` equals the TTL, the lease is never renewed.
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
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// Sets the minimum time for which the lock is held, counted from its acquisition (default: no minimum).
    ///
    /// If its holder leaves earlier, in whatever way, the lock stays held until then, and the next waiter enters as soon as
    /// that time is over. The holder itself does not wait. So a scheduled job runs at most once per period, however many machines try to run it,
    /// even if their clocks differ. If its machine dies, the job is left out in this period. The page
    /// [services](crate::guide::services#a-nightly-job-even-if-a-machine-dies) shows a job that another machine then runs.
    ///
    /// The TTL is raised to `min_hold`. So the guarantee also applies if the process ends: the lock is then held for the
    /// TTL, counted from its last renewal. [`close`](crate::Locks::close) waits for the end of `min_hold`, and leaves the
    /// lock to its lease at the limit.
    ///
    /// Until the lock of such a process expires, no other caller runs the job. So `min_hold` should be longer than the clocks
    /// of the machines differ, and not much longer.
    ///
    /// `min_hold` is at most [`max_hold`](Self::max_hold), and cannot be set for a shared lock. The value of the
    /// outermost acquisition applies.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let hourly = locks.lock("job:report").min_hold(Duration::from_secs(60)).no_wait();
    /// hourly.clone().run(async { /* the job, for a second or two */ }).await?;
    /// assert!(hourly.clone().run(async {}).await.unwrap_err().is_busy());
    /// tokio::time::sleep(Duration::from_secs(3600)).await;
    /// hourly.run(async { /* the next run */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.terms.min_hold = Some(min_hold);
        self
    }

    /// Sets what happens to the body when the lock is lost (default: the body is dropped). The value of the outermost
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
        self.terms.on_lost = on_lost;
        self
    }

    /// Shares the lock with other readers, as a reader (default: the lock is held exclusively).
    ///
    /// Any number of call graphs hold a shared lock together, each with its own lease. No call graph holds it
    /// exclusively meanwhile. A reader waits behind a writer that arrived earlier. Inside an enclosing call that holds
    /// the key exclusively, the lock is re-entered, and stays exclusive.
    ///
    /// Readers have the token of the lock that they entered. It is greater than the token of every earlier writer. Two
    /// equal tokens mean that no writer held the lock in between.
    ///
    /// Several keys are shared one after the other, in their order. Each key costs the two requests of a single reader.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let one = locks.lock("report:2026").read().await?;
    /// let both = locks.lock_all(["report:2025", "report:2026"]).read().no_wait().await?;
    /// assert!(locks.lock("report:2026").no_wait().await.unwrap_err().is_busy());
    /// # drop((one, both));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(mut self) -> Self {
        self.terms.mode = Mode::Shared;
        self
    }

    /// Runs `body` under the lock, or under all the locks. See [`Locks::with_lock`](crate::Locks::with_lock) and
    /// [`Locks::lock_all`](crate::Locks::lock_all).
    ///
    /// # Errors
    ///
    /// Every [`LockError`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Locks::with_lock`](crate::Locks::with_lock).
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
    pub fn run<F: Future>(self, body: F) -> WithLock<F> {
        WithLock::new(self.engine, self.keys, self.terms, body)
    }

    /// Runs `body` under the lock. See [`Locks::try_with_lock`](crate::Locks::try_with_lock).
    ///
    /// # Errors
    ///
    /// The errors of the body, and every [`LockError`] of [`run`](Self::run), converted into the error type of the
    /// body.
    ///
    /// # Cancel safety
    ///
    /// As for [`Locks::with_lock`](crate::Locks::with_lock).
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
    ///     .try_run(async { Ok::<u32, Box<dyn std::error::Error>>("42".parse()?) })
    ///     .await?;
    /// assert_eq!(n, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_run<F, T, E>(self, body: F) -> TryWithLock<F>
    where
        F: Future<Output = Result<T, E>>,
        E: From<LockError>,
    {
        TryWithLock(self.run(body))
    }
}
