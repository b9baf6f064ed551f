//! A request for one acquisition, and its options.

use std::sync::Arc;
use std::time::Duration;

use crate::api::engine::{Engine, RequestKeys};
use crate::base::options::{LockOptions, Mode, OnLost, Retry};

/// A request for a lock, for several locks, or for a permit, with its own options. [`Locks::lock`](crate::Locks::lock),
/// [`lock_all`](crate::Locks::lock_all) and [`semaphore`](crate::Locks::semaphore) begin one.
///
/// An option that is not set comes from the [`LocksBuilder`](crate::LocksBuilder). A request can be cloned and used
/// again. Awaiting it is the same as [`acquire`](Self::acquire). Keep the [guard](crate::LockGuard) that this returns:
/// `let _ = locks.lock(…).await?` releases the lock on the same line.
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
    pub(super) keys: RequestKeys,
    pub(super) terms: LockOptions,
}

impl LockRequest {
    /// Sets how long others wait if this process crashes (default 30 s, from 20 ms to 100 years). A live holder renews
    /// every third of that time, so it is also how long an outage the lock survives: two thirds of it.
    ///
    /// It must be more than twice the response time of Redis. On a re-entry, it may lengthen the lease, in the
    /// background, and never shortens it.
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

    /// Sets how long to wait for the lock (default 60 s). Zero is [`no_wait`](Self::no_wait), and [`Duration::MAX`] is
    /// no limit. A re-entry never waits.
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
        self.terms.wait = wait;
        self
    }

    /// Asks once, and gets [`Busy`](crate::LockError::Busy) if the lock is not free, or if other callers of this process
    /// wait for it.
    ///
    /// An attempt right after a release in this process, for example of a dropped guard, waits for the answer to that
    /// release.
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
        (self.terms.wait, self.terms.retry) = (Duration::ZERO, None);
        self
    }

    /// Asks up to `attempts` times, with a pause of `interval` in between, in place of the queue (default: one request,
    /// which waits in it). If the last attempt finds the lock busy as well, the error is
    /// [`Busy`](crate::LockError::Busy).
    ///
    /// It replaces [`wait`](Self::wait). Callers that wait in the queue go first, and a deadlock is not searched for.
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

    /// Ends a body that hangs: after this time, counted from the acquisition, the lock counts as lost (default: no
    /// limit).
    ///
    /// If it is not longer than the TTL, the lease lasts for this time and is never renewed. The minimum is 20 ms. The
    /// value of the outermost acquisition applies.
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

    /// Keeps the lock for at least this time, counted from the acquisition (default: no minimum). So a scheduled job
    /// runs at most once per period, however many machines start it, even if their clocks differ.
    ///
    /// A minute is a good choice: more than the clocks differ, and not much more, because it delays recovery. The
    /// holder does not wait for the end of that time. The next waiter enters when it is over, and
    /// [`close`](crate::Locks::close) waits for it, up to its limit.
    ///
    /// The TTL is raised to `min_hold`, so the lock of a machine that dies is kept as well, for the TTL after its last
    /// renewal, and its job is left out in this period. The page
    /// [services](crate::guide::services#a-nightly-job-even-if-a-machine-dies) has a job that another machine then
    /// runs.
    ///
    /// It is at most [`max_hold`](Self::max_hold), and not for a shared lock. The value of the outermost acquisition
    /// applies.
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

    /// Sets whether a body is dropped when its lock is lost (the default), or continues. The value of the outermost
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

    /// Shares the lock with other readers (default: the lock is held exclusively).
    ///
    /// Any number of readers are inside together, each with its own lease, and no writer is. A reader waits behind a
    /// writer that came earlier. Inside a call that holds the lock exclusively, it stays exclusive.
    ///
    /// Readers that are inside together have one token, greater than that of every earlier writer. Of several keys,
    /// each costs the two requests of a single reader.
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
}
