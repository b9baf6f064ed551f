//! The search for deadlocks as an option of the builder and of each request.

use super::{builder::LocksBuilder, request::LockRequest};

impl LocksBuilder {
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
    pub fn detect_deadlocks(mut self, detect: bool) -> Self {
        self.options.detect_deadlocks = Some(detect);
        self
    }
}

impl<K> LockRequest<K> {
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
    pub fn detect_deadlocks(mut self, detect: bool) -> Self {
        self.options.detect_deadlocks = Some(detect);
        self
    }
}
