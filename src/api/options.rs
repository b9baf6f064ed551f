//! The options that the builder and each request have: one definition of both setters.

use std::time::Duration;

use super::builder::LocksBuilder;
use super::request::LockRequest;
use crate::base::option_types::{DepthSync, OnLost, Reentrancy, Replicas};
use crate::base::options::WaitLimit;

/// Defines the setters of options, for one request and as the default of a `Locks`, each with its documentation.
macro_rules! options {
    ($(
        request: $(#[$request:meta])*
        builder: $(#[$builder:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) => $option:ident = $value:expr;
    )*) => {
        impl<K> LockRequest<K> {
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
    builder:
    /// The default of [`LockRequest::ttl`] (30 s).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let ttl = Duration::from_secs(5);
    /// let locks = reentry::Locks::builder().url("memory:").ttl(ttl).build().await?;
    /// assert!(locks.lock("order:42").await?.held().remaining() <= ttl);
    /// # Ok(())
    /// # }
    /// ```
    fn ttl(ttl: Duration) => ttl = Some(ttl);
    request:
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
    builder:
    /// The default of [`LockRequest::wait`] (60 s: longer than the TTL, so that waiters outlive a holder that crashed).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").wait(Duration::from_secs(5)).build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// assert!(locks.lock("order:42").await.unwrap_err().is_contended());
    /// # Ok(())
    /// # }
    /// ```
    fn wait(wait: Duration) => wait = Some(wait.into());
    request:
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
    builder:
    /// Makes requests wait without a limit by default; see [`LockRequest::wait_forever`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").wait_forever().build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// let hour = Duration::from_secs(60 * 60);
    /// assert!(tokio::time::timeout(hour, locks.lock("order:42").acquire()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    fn wait_forever() => wait = Some(WaitLimit::Forever);
    request:
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
    builder:
    /// The default of [`LockRequest::max_hold`] (no limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").max_hold(Duration::from_secs(60)).build().await?;
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// assert!(locks.with_lock("order:42", body).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    fn max_hold(max_hold: Duration) => max_hold = Some(max_hold);
    request:
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
    builder:
    /// The default of [`LockRequest::on_lost`] (the body is dropped).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{Locks, OnLost};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = Locks::builder().url("memory:").max_hold(Duration::from_secs(60));
    /// let locks = builder.on_lost(OnLost::KeepRunning).build().await?;
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// assert!(locks.with_lock("order:42", body).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    fn on_lost(on_lost: OnLost) => on_lost = Some(on_lost);
    request:
    /// How many replicas must have the lock before it counts; see [`LocksBuilder::confirm`]. The value of the outermost
    /// acquisition applies.
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
    builder:
    /// How many replicas must have a lock before it counts, and a renewal before it counts (default: none is waited
    /// for).
    ///
    /// A server answers before its replicas have the change. If it fails then, the replica that is promoted may not
    /// have the lock, and gives it to another holder. With this option the body begins when the replicas have the lock.
    /// If they do not have it `within` that time, the lock is given back, and the error is
    /// [`LockError::Unconfirmed`](crate::LockError::Unconfirmed). A renewal that they do not have lengthens no lease.
    /// So a holder that is cut off from the replicas together with the server ends its body in time.
    ///
    /// Confirmation costs a round trip to the server and to its replicas for each outermost acquisition. Callers at the
    /// same time share it. Confirmation uses its own connection, also with a pool. Releases and changes of the depth
    /// are not waited for. The time `within` comes on top of [`wait`](Self::wait). It is at least 1 ms; a few times
    /// what a replica needs to answer is a good choice. A store in memory has no replicas, and confirms at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::{Locks, Replicas};
    ///
    /// let locks = Locks::builder()
    ///     .url("redis+sentinel://sentinel-1,sentinel-2,sentinel-3/orders")
    ///     .confirm(Replicas::all(), Duration::from_millis(500))
    ///     .build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    fn confirm(replicas: Replicas, within: Duration) => confirm = Some((replicas, within));
    request:
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
    builder:
    /// The default of [`LockRequest::reentrancy`] (locks may be re-entered).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Locks, Reentrancy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder().url("memory:").reentrancy(Reentrancy::Forbid).build().await?;
    /// let nested = locks.with_lock("order:42", locks.with_lock("order:42", async {})).await?;
    /// assert!(matches!(nested, Err(LockError::AlreadyHeld { .. })));
    /// # Ok(())
    /// # }
    /// ```
    fn reentrancy(reentrancy: Reentrancy) => reentrancy = Some(reentrancy);
    request:
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
    builder:
    /// The default of [`LockRequest::depth_sync`] (nested entries and exits wait for the store).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{DepthSync, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder().url("memory:").depth_sync(DepthSync::Background).build().await?;
    /// let nested = locks.with_lock("order:42", async { locks.held("order:42").map(|held| held.depth()) });
    /// assert_eq!(locks.with_lock("order:42", nested).await??, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    fn depth_sync(depth_sync: DepthSync) => depth_sync = Some(depth_sync);
    request:
    /// Whether this request is searched for deadlocks while it waits (default: yes).
    ///
    /// The search applies to a request that waits for longer than a quarter of a [heartbeat](LocksBuilder::heartbeat)
    /// while it has locks: inside a body that holds another lock of this [`Locks`](crate::Locks), or with some of
    /// [several](crate::Locks::lock_all) locks taken. Such a request tells the store which locks these are, four times
    /// in a heartbeat. If such requests form a ring, in whichever processes, one of them fails with
    /// [`LockError::Deadlock`](crate::LockError::Deadlock) within about two heartbeats, and the others continue to
    /// wait. Every other request pays nothing for it.
    ///
    /// Say no for one of several branches of which only one has to succeed, as in `select!`: a branch may be chosen
    /// although another branch would have ended the wait. A ring is found only if all its requests say yes, if none of
    /// them waits for a permit of a [semaphore](crate::Locks::semaphore), and if it has no more than 32 requests.
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
    ///     locks.with_lock_flat(outer, body).await
    /// };
    /// // Each holds the lock that the other one wants: one of them gives way.
    /// let (one, other) = tokio::join!(nest("a", "b"), nest("b", "a"));
    /// assert!(one.is_ok() != other.is_ok());
    /// assert!(one.and(other).unwrap_err().is_deadlock());
    /// # Ok(())
    /// # }
    /// ```
    builder:
    /// The default of [`LockRequest::detect_deadlocks`] (deadlocks are searched for).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").detect_deadlocks(false).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    fn detect_deadlocks(detect: bool) => detect_deadlocks = Some(detect);
}
