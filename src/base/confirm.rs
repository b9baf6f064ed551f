//! How many replicas must have a lock before it counts.

use std::{num::NonZeroU32, time::Duration};

/// How many replicas of the server must have a lock before it counts; for
/// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm).
///
/// A replica that is promoted brings what it has. Sentinels and clusters prefer the one that has the most, but only as far
/// as they know: where two of three servers have a lock, the third one may be promoted. So [`all`](Self::all) is what a
/// lock needs to outlive a failover; [`at_least`](Self::at_least) goes on while a replica is away.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Replicas};
///
/// let within = Duration::from_millis(500);
/// let builder = Locks::builder().url("memory:").confirm(Replicas::all(), within);
/// # builder.build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas(Option<NonZeroU32>);

impl Replicas {
    /// All of them, and one at the least: as many as the server has had since it became the primary, as far as this `Locks`
    /// has seen, and as the sentinels, or the servers of the cluster, saw well. One that is cut off counts further, since it may be
    /// promoted. One that was taken away for good does too, until the next failover or the next start of this process.
    ///
    /// A replica counts from when it has loaded the data of its primary, and counts once, also where it comes back under another
    /// address. A backup by `redis-cli --rdb` does not count. One of priority 0 does, though it is never promoted: the
    /// server says how many replicas have a lock, and not which ones.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// So many of them; one if that is 0.
    #[must_use]
    pub const fn at_least(count: u32) -> Self {
        match NonZeroU32::new(count) {
            Some(count) => Self(Some(count)),
            None => Self(Some(NonZeroU32::MIN)),
        }
    }

    /// How many must have it where there are so many.
    pub(crate) fn of(self, all: u32) -> u32 {
        self.0.map_or(all.max(1), NonZeroU32::get)
    }
}

/// How many replicas must have a lock, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// In milliseconds, since every hold has it.
    within: NonZeroU32,
}

impl Confirm {
    /// `None` if the time is none, or too long.
    pub(crate) fn new(replicas: Replicas, within: Duration) -> Option<Self> {
        let within = NonZeroU32::new(u32::try_from(within.as_millis()).ok()?)?;
        Some(Self { replicas, within })
    }

    pub(crate) fn within(self) -> Duration {
        Duration::from_millis(self.within.get().into())
    }
}

/// Whether replicas have what the server has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    /// Too few of them had it in time.
    Late,
    /// The connection has failed, or is another one now.
    Unknown,
}
