//! The option for the time of a migration.

use super::LocksBuilder;
use crate::base::neighbours::Neighbours;

impl LocksBuilder {
    /// Lets programs of another kind get the locks too, for the time of a migration (default: not).
    ///
    /// A lock that this crate hands from one waiter to the next is never free, so a program that polls does not get it while
    /// callers wait. With this option:
    ///
    /// - a release leaves the lock free for a moment in which such a program asks, again and again while callers wait. The
    ///   callers wait for that moment: at most `interval` and a quarter in every [`every`](Neighbours::every);
    /// - a release that frees the lock publishes `0` on `redisson_lock__channel:{key}`, where Redisson waits;
    /// - a process with waiters listens on these channels, and asks at once when Redisson frees a lock.
    ///
    /// Give it to all processes. A release costs one request more. The user needs the rights
    /// `+psubscribe &redisson_lock__channel:*` in addition. A lock that is shared, or that `min_hold` keeps, is released as
    /// without the option. In memory it does nothing. The guide has a [procedure](crate::guide::moving).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// use reentry::{Locks, Neighbours};
    ///
    /// let neighbours = Neighbours::polling(Duration::from_millis(50));
    /// let locks = Locks::builder().url("memory:").neighbours(neighbours).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn neighbours(mut self, neighbours: Neighbours) -> Self {
        self.queueing.neighbours = Some(neighbours);
        self
    }
}
