//! The option for sharing locks with other kinds of programs.

use std::time::Duration;

use crate::base::error::LockError;

/// The other kinds of programs that use the same locks during a migration.
/// [`neighbours`](crate::LocksBuilder::neighbours) describes what a `Locks` does for them.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Neighbours};
/// use std::time::Duration;
///
/// // The old programs poll every 100 ms. They get a chance at least every 2 s.
/// let neighbours = Neighbours::polling(Duration::from_millis(100)).every(Duration::from_secs(2));
/// let locks = Locks::builder().url("redis://localhost").neighbours(neighbours).build_lazy()?;
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbours {
    /// The interval between two requests of a program that polls.
    pub(crate) interval: Duration,
    /// The time after which a lock with waiting processes is left free again.
    pub(crate) every: Duration,
}

impl Neighbours {
    /// The longest interval. The store rejects a much longer pause.
    const LONGEST: Duration = Duration::from_secs(10);

    /// Describes programs that poll at least once per interval while a lock is held. Between 1 ms and 10 s.
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

    /// Sets the minimum time after which a lock with waiting processes is left free again (default 1 s). At least twice
    /// the interval.
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

    /// How long the lock is left free. This is longer than the interval, because a request takes time.
    pub(crate) fn pause(self) -> Duration {
        self.interval + (self.interval / 4).max(Duration::from_millis(5))
    }

    pub(crate) fn check(self) -> Result<(), LockError> {
        let Self { interval, every } = self;
        let reason = if !(Duration::from_millis(1)..=Self::LONGEST).contains(&interval) {
            format!("neighbours must poll at an interval between 1 ms and 10 s, not {interval:?}")
        } else if every < 2 * interval {
            format!("`every` must be at least twice the interval of {interval:?}, not {every:?}")
        } else {
            return Ok(());
        };
        Err(LockError::config(reason))
    }
}
