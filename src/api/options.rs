//! The options about holds, of the builder and of each request.

use std::time::Duration;

use super::builder::LocksBuilder;
use super::request::LockRequest;
use crate::base::options::{Mode, OnLost};

impl LockRequest {
    /// Sets the TTL: how long the lock outlives its holder if the holder dies (default 30 s, from 20 ms to 100 years).
    /// While the holder is alive, the lease is renewed every third of the TTL.
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
    /// A re-entry waits for nothing: the depth in the store follows.
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
}

impl LocksBuilder {
    /// Sets the default of [`LockRequest::ttl`] (30 s).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let ttl = Duration::from_secs(5);
    /// let locks = reentry::Locks::builder("memory:").ttl(ttl).build().await?;
    /// assert!(locks.lock("order:42").await?.held().remaining() <= ttl);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
        self
    }

    /// Sets the default of [`LockRequest::wait`] (60 s: longer than the TTL, so that waiters outlast a dead holder).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder("memory:").wait(Duration::from_secs(5)).build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// assert!(locks.lock("order:42").await.unwrap_err().is_busy());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = wait.into();
        self
    }

    /// Sets the default of [`LockRequest::max_hold`] (no limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder("memory:").max_hold(Duration::from_secs(60)).build().await?;
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// assert!(locks.with_lock("order:42", body).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// Sets how many replicas must confirm each lock, and each of its renewals, before it counts (default: none).
    ///
    /// A server responds before its replicas have the change. If it fails then, the replica that is promoted may not
    /// have the lock, and may give it to another holder. With this option, the body begins when the replicas have the
    /// lock. If they do not confirm it `within` that time, the lock is released, and the error is
    /// [`LockError::Unavailable`](crate::LockError::Unavailable). A renewal that they do not confirm does not lengthen
    /// the lease. So a holder that is cut off from the replicas together with the server ends its body in time.
    ///
    /// Confirmation costs each outermost acquisition a round trip to the server and to its replicas, which concurrent
    /// callers share. It uses its own connection, even with a pool. Releases and changes of the depth do not wait for
    /// it. The time `within` is in addition to [`wait`](Self::wait). It is at least 1 ms. A few times the response time
    /// of a replica is a good choice. The in-memory store has no replicas, and confirms immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::Locks;
    ///
    /// let locks = Locks::builder("redis+sentinel://sentinel-1,sentinel-2,sentinel-3/orders")
    ///     .confirm(2, Duration::from_millis(500))
    ///     .build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirm(mut self, replicas: u32, within: Duration) -> Self {
        self.confirm = Some((replicas, within));
        self
    }
}
