//! Locks that several callers hold together: readers, and the holders of permits.

use crate::api::locks::Locks;
use crate::api::request::LockRequest;
use crate::base::option_types::Mode;

impl LockRequest {
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

impl Locks {
    /// Returns a request for one of `permits` permits. At most that many callers hold a permit at one time, in all
    /// processes.
    ///
    /// Each permit has its own lease, as a reader's lock has. Waiters are served in the order of their arrival. A
    /// permit is acquired, held, lost and released like a lock, with the same options: `run`, `acquire`, `try_acquire`,
    /// `no_wait`. A request never shares the permit of an enclosing call: each request acquires one more. So a caller
    /// that needs both of the last two permits may wait for itself.
    ///
    /// If programs specify different numbers for one key, each request uses its own number. The key is the key of a
    /// lock: while a permit is held, no writer holds that lock.
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
}
