//! How the callers of one `Locks` wait.

use std::time::Duration;

use super::LocksBuilder;
use crate::base::option_types::{HandOff, Wake};

impl LocksBuilder {
    /// How waiters learn that a lock may be free (default: [`Wake::Notify`]).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{Locks, Wake};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let wake = Wake::Poll { interval: Duration::from_millis(50), attempts: Some(3) };
    /// let locks = Locks::builder().url("memory:").wake(wake).build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// assert!(locks.lock("order:42").await.unwrap_err().is_contended());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake(mut self, wake: Wake) -> Self {
        self.queueing.wake = wake;
        self
    }

    /// The time between two requests of a waiter that waits for its message (default 1 s; a third of its TTL if that is
    /// shorter). Between 10 ms and 1 min.
    ///
    /// A lost message, a dead waiter and a subscription that hangs each delay a hand-off by two heartbeats at most. A
    /// lock that has moved to another process has a lease of two heartbeats until it is renewed for the first time.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let builder = Locks::builder().url("memory:").heartbeat(Duration::from_millis(200));
    /// assert!(builder.build().await.is_ok());
    /// let builder = Locks::builder().url("memory:").heartbeat(Duration::ZERO);
    /// assert!(matches!(builder.build().await, Err(LockError::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.queueing.heartbeat = heartbeat;
        self
    }

    /// How many times in a row a lock goes from one waiter to the next in this process while
    /// another process waits (default 16). With 0 it goes to the process that has waited longest.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").local_handoffs(0).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_handoffs(mut self, count: u32) -> Self {
        self.queueing.local_handoffs = count;
        self
    }

    /// How a lock goes from one waiter to the next in this process (default: [`HandOff::InStore`]).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{HandOff, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder().url("memory:").handoff(HandOff::InProcess).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn handoff(mut self, handoff: HandOff) -> Self {
        self.queueing.handoff = handoff;
        self
    }

    /// How long a caller waits before it reports that it still waits (default 5 s). It reports again each time it has
    /// waited for twice as long. The report is the event `waiting`, which names the holder of the lock.
    /// [`Duration::MAX`] means never.
    ///
    /// For the report the store is asked for the holder, at most once in a heartbeat for all callers of this process
    /// that wait for the lock. Reports of one caller are at least 10 ms apart.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = reentry::Locks::builder().url("memory:");
    /// let locks = builder.report_waiting_after(Duration::from_secs(30)).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn report_waiting_after(mut self, waited: Duration) -> Self {
        self.queueing.report_after = waited;
        self
    }
}
