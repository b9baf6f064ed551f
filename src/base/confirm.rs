//! The number of replicas that must have a lock before it counts.

use std::num::NonZeroU32;
use std::time::Duration;

/// The number of replicas of the server that must have a lock before it counts; for
/// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm).
///
/// A replica that is promoted knows only the locks that it has received. Sentinels and clusters prefer the replica with the
/// most data, but only as far as they know: where two of three servers have a lock, the third one may be promoted. So a lock
/// needs [`all`](Self::all) to outlive every failover; with [`at_least`](Self::at_least) locks can be taken while a replica
/// is away.
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
    /// All replicas, and at least one: as many as the server has had since it became the primary, as far as this `Locks` has
    /// seen, and as the sentinels, or the servers of the cluster, saw healthy. A replica that is cut off still counts, since it
    /// may be promoted. A replica that was removed for good counts too, until the next failover or the next start of this
    /// process.
    ///
    /// A replica counts as soon as it has loaded the data of its primary, and it counts once, even if it comes back under
    /// another address. A backup by `redis-cli --rdb` does not count. A replica of priority 0 counts, though it is never
    /// promoted: the server reports how many replicas have a lock, but not which ones.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// At least `count` replicas; one replica if `count` is 0.
    #[must_use]
    pub const fn at_least(count: u32) -> Self {
        match NonZeroU32::new(count) {
            Some(count) => Self(Some(count)),
            None => Self(Some(NonZeroU32::MIN)),
        }
    }

    /// The number of replicas that must have a lock where there are `all`.
    pub(crate) fn of(self, all: u32) -> u32 {
        self.0.map_or(all.max(1), NonZeroU32::get)
    }
}

/// The number of replicas that must have a lock, and the time within which they must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// Milliseconds in 32 bits, to keep each hold small.
    within: NonZeroU32,
}

impl Confirm {
    /// Returns `None` if `within` is shorter than 1 ms or too long.
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
