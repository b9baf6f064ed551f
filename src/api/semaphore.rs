//! A lock that a fixed number of callers may hold together.

use crate::api::locks::Locks;
use crate::api::request::LockRequest;
use crate::api::with_lock::WithLock;
use crate::base::option_types::Mode;

impl Locks {
    /// A request for one of `permits` permits: at most that many callers hold one at a time, in all processes.
    ///
    /// Each permit has its own lease, as a reader's lock has. Waiters are served in the order in which they came. A
    /// permit is taken, kept, lost and released like a lock, with the same options: `run`, `acquire`, `try_acquire`,
    /// `no_wait`. A request never shares the permit of an enclosing call: each request takes one more. So a caller that
    /// needs both of the last two permits may wait for itself.
    ///
    /// If programs name different numbers for one key, each request uses its own number. The key is the key of a lock:
    /// while a permit is held, no writer holds that lock.
    ///
    /// # Errors
    ///
    /// The errors of a lock, when the request is run or awaited; [`Config`](crate::LockError::Config) if `permits` is
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
        request.options.mode = Mode::Shared;
        request.options.permits = Some(permits);
        request
    }

    /// Runs `body` with one of `permits` permits; see [`semaphore`](Self::semaphore).
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
