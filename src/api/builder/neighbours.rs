//! The option for a migration.

use super::LocksBuilder;
use crate::base::neighbours::Neighbours;

impl LocksBuilder {
    /// Lets other kinds of programs acquire the locks as well, during a migration (default: off).
    ///
    /// A lock that this crate hands from one waiter to the next is never free. So a program that polls never acquires
    /// it while callers wait. With this option:
    ///
    /// - While callers wait, a release repeatedly leaves the lock free for the moment in which such a program polls.
    ///   The callers wait for that moment, for at most one and a quarter `interval`s in every
    ///   [`every`](Neighbours::every).
    /// - A release that frees the lock publishes `0` on `redisson_lock__channel:{key}`, where Redisson waits.
    /// - A process with waiters subscribes to these channels, and sends its request immediately when Redisson frees a
    ///   lock.
    ///
    /// Set the option in all processes. A release costs one additional request. The user also needs the rights
    /// `+psubscribe &redisson_lock__channel:*`. For a shared lock, or a lock that `min_hold` keeps, the release works
    /// as without the option. The option has no effect on the in-memory store. The guide describes a
    /// [procedure](crate::guide::migrating).
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
