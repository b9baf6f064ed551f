//! The options of the builder and of each request. One definition creates both setters.

use std::time::Duration;

use super::builder::LocksBuilder;
use super::request::LockRequest;
use crate::base::option_types::{OnLost, Reentrancy};

/// Defines the setters of options, for one request and as the default of a `Locks`, each with its documentation.
macro_rules! options {
    ($(
        request: $(#[$request:meta])*
        builder: $(#[$builder:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) => $option:ident = $value:expr;
    )*) => {
        impl LockRequest {
            $(
                $(#[$request])*
                pub fn $name(mut self, $($arg: $type),*) -> Self {
                    self.options.$option = $value;
                    self
                }
            )*
        }

        impl LocksBuilder {
            $(
                $(#[$builder])*
                pub fn $name(mut self, $($arg: $type),*) -> Self {
                    self.options.$option = $value;
                    self
                }
            )*
        }
    };
}

options! {
    request:
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
    builder:
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
    fn ttl(ttl: Duration) => ttl = Some(ttl);
    request:
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
    /// assert!(matches!(late, Err(reentry::LockError::Timeout { .. })));
    /// # Ok(())
    /// # }
    /// ```
    builder:
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
    /// assert!(locks.lock("order:42").await.unwrap_err().is_contended());
    /// # Ok(())
    /// # }
    /// ```
    fn wait(wait: Duration) => wait = Some(wait.into());
    request:
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
    builder:
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
    fn max_hold(max_hold: Duration) => max_hold = Some(max_hold);
    request:
    /// Sets whether the lock may be re-entered if an enclosing call holds it (default: it may).
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
    builder:
    /// Sets the default of [`LockRequest::reentrancy`] (locks may be re-entered).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Locks, Reentrancy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder("memory:").reentrancy(Reentrancy::Forbid).build().await?;
    /// let nested = locks.with_lock("order:42", locks.with_lock("order:42", async {})).await?;
    /// assert!(matches!(nested, Err(LockError::AlreadyHeld { .. })));
    /// # Ok(())
    /// # }
    /// ```
    fn reentrancy(reentrancy: Reentrancy) => reentrancy = Some(reentrancy);
    request:
    /// Sets whether this request takes part in the deadlock search while it waits (default: `true`).
    ///
    /// The search applies to a request that has locks, and waits for longer than a quarter of a heartbeat. The heartbeat
    /// is 1 s, or a third of the TTL if that is shorter. Such a request is inside a body that holds another lock of this
    /// [`Locks`](crate::Locks), or has acquired some of [several](crate::Locks::lock_all) locks. It tells the store
    /// which locks these are, four times per heartbeat. If such requests form a ring, in any number of processes, one
    /// of them fails with [`LockError::Deadlock`](crate::LockError::Deadlock) within about two heartbeats. The others
    /// continue to wait. The search costs nothing for other requests.
    ///
    /// Use `false` for one of several branches of which only one has to succeed, as in `select!`. Otherwise a branch
    /// may be chosen although another branch would have ended the wait. A ring is found only if all of its requests
    /// take part, and if none of them waits for a permit of a [semaphore](crate::Locks::semaphore). It may have at most
    /// 32 requests.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tokio::time::sleep;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let nest = async |outer: &str, inner: &str| {
    ///     let inner = locks.lock(inner);
    ///     let body = async {
    ///         sleep(Duration::from_millis(100)).await;
    ///         inner.run(async {}).await
    ///     };
    ///     locks.try_with_lock(outer, body).await
    /// };
    /// // Each call holds the lock that the other one wants. One of them fails.
    /// let (one, other) = tokio::join!(nest("a", "b"), nest("b", "a"));
    /// assert!(one.is_ok() != other.is_ok());
    /// assert!(one.and(other).unwrap_err().is_deadlock());
    /// # Ok(())
    /// # }
    /// ```
    builder:
    /// Sets the default of [`LockRequest::detect_deadlocks`] (`true`).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder("memory:").detect_deadlocks(false).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    fn detect_deadlocks(detect: bool) => detect_deadlocks = Some(detect);
}

impl LockRequest {
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
        self.options.on_lost = on_lost;
        self
    }
}

impl LocksBuilder {
    /// Sets how many replicas must confirm each lock, and each of its renewals, before it counts (default: none).
    ///
    /// A server responds before its replicas have the change. If it fails then, the replica that is promoted may not
    /// have the lock, and may give it to another holder. With this option, the body begins when the replicas have the
    /// lock. If they do not confirm it `within` that time, the lock is released, and the error is
    /// [`LockError::Unconfirmed`](crate::LockError::Unconfirmed). A renewal that they do not confirm does not lengthen
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
        self.options.confirm = Some((replicas, within));
        self
    }
}
