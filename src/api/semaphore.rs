//! A lock that so many callers may have together.

use crate::{
    api::{locks::Locks, request::LockRequest, with_lock::WithLock},
    base::mode::Mode,
};

impl Locks {
    /// A request for one of so many permits: at most that many callers have one at a time, in all processes.
    ///
    /// Each permit has a lease of its own, as a reader's lock has, and those who wait get theirs first come, first
    /// served. It is taken, kept, lost and released as a lock is, with the same options: `run`, `acquire`,
    /// `try_acquire`, `no_wait`. An enclosing call is no reason to share its permit: each request takes one more, so
    /// one that needs two of the last two at once may wait for itself.
    ///
    /// Where programs name different numbers for one key, each goes by its own when it asks. The key is a lock's: while a
    /// permit is out, no writer holds it.
    ///
    /// # Errors
    ///
    /// As for a lock, when it is run or awaited; [`Config`](crate::LockError::Config) if `permits` is 0.
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
        request.options.mode = Mode::Shared;
        request.options.permits = Some(permits);
        request
    }

    /// Runs `body` with one of so many permits; see [`semaphore`](Self::semaphore).
    ///
    /// # Errors
    ///
    /// As for [`with_lock`](Self::with_lock); [`Config`](crate::LockError::Config) if `permits` is 0.
    ///
    /// # Panics
    ///
    /// As for `with_lock`.
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
    /// let page = locks.with_permit("downloads", 4, async { "a page" }).await?;
    /// assert_eq!(page, "a page");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_permit<F: Future>(
        &self,
        key: impl AsRef<str>,
        permits: u32,
        body: F,
    ) -> WithLock<F> {
        self.semaphore(key, permits).run(body)
    }
}
