//! What programs of another kind need beside this crate.

use std::time::Duration;

use crate::base::error::LockError;

/// The programs of another kind that take the same locks for the time of a migration: what
/// [`neighbours`](crate::LocksBuilder::neighbours) does for them.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Neighbours};
/// use std::time::Duration;
///
/// // The old programs ask every 100 ms. They get a chance at least every 2 s.
/// let neighbours = Neighbours::polling(Duration::from_millis(100)).every(Duration::from_secs(2));
/// let locks = Locks::builder().url("redis://localhost").neighbours(neighbours).build_lazy()?;
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbours {
    /// The time between two requests of a program that polls.
    pub(crate) interval: Duration,
    /// The time after which a lock that processes wait for is left free again.
    pub(crate) every: Duration,
}

impl Neighbours {
    /// The longest interval. The store rejects a pause that is far longer.
    const LONGEST: Duration = Duration::from_secs(10);

    /// Programs that ask at least once in this interval, as long as a lock is held. Between 1 ms and 10 s.
    ///
    /// # Examples
    ///
    /// ```
    /// use reentry::{Locks, Neighbours};
    /// use std::time::Duration;
    ///
    /// let never = Neighbours::polling(Duration::from_secs(60));
    /// assert!(Locks::builder().url("memory:").neighbours(never).build_lazy().is_err());
    /// ```
    #[must_use]
    pub fn polling(interval: Duration) -> Self {
        Self {
            interval,
            every: Duration::from_secs(1),
        }
    }

    /// How long after such a moment, at the earliest, a lock for which processes wait is left free again (default 1 s). At
    /// least twice the interval.
    ///
    /// # Examples
    ///
    /// ```
    /// use reentry::Neighbours;
    /// use std::time::Duration;
    ///
    /// let neighbours = Neighbours::polling(Duration::from_millis(50)).every(Duration::from_secs(5));
    /// # drop(neighbours);
    /// ```
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// For how long the lock is left free: longer than the interval, since a request takes its time.
    pub(crate) fn pause(self) -> Duration {
        self.interval + (self.interval / 4).max(Duration::from_millis(5))
    }

    pub(crate) fn check(self) -> Result<(), LockError> {
        let Self { interval, every } = self;
        let reason = if !(Duration::from_millis(1)..=Self::LONGEST).contains(&interval) {
            format!("neighbours that poll every {interval:?}, which is not between 1 ms and 10 s")
        } else if every < 2 * interval {
            format!("a lock is left free every {every:?}, which is below twice the {interval:?}")
        } else {
            return Ok(());
        };
        Err(LockError::config(reason))
    }
}
