//! The types of the options that are neither durations nor numbers.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::base::error::LockError;

/// The mode of a hold: exclusive, or shared with other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mode {
    /// No other call graph holds the lock in any mode. The holder is a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs may share the lock, and none holds it exclusively. The holder is a reader.
    Shared,
}

impl Mode {
    /// The name in spans and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// What happens to a body when its lock is lost.
///
/// # Examples
///
/// ```
/// use reentry::{Locks, OnLost};
///
/// let locks = Locks::in_memory();
/// let request = locks.lock("order:42").on_lost(OnLost::KeepRunning);
/// # drop(request);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped immediately, and the caller gets [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Abort,
    /// The body continues, and its output is returned.
    ///
    /// The body can call [`Held::is_lost`](crate::Held::is_lost), or await [`Held::lost`](crate::Held::lost).
    KeepRunning,
}

/// What happens when an enclosing call already holds the key.
///
/// # Examples
///
/// ```
/// use reentry::{Locks, Reentrancy};
///
/// let builder = Locks::builder("memory:").reentrancy(Reentrancy::Forbid);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reentrancy {
    /// The lock is re-entered.
    #[default]
    Allow,
    /// The acquisition fails immediately with [`LockError::AlreadyHeld`](crate::LockError::AlreadyHeld).
    Forbid,
}

/// The number of replicas of the server that must have a lock before it counts. Used by
/// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm).
///
/// A promoted replica knows only the locks that it has received. Sentinels and clusters prefer the replica with the
/// most data, but only as far as they know. If two of three servers have a lock, the third one may be promoted. So a
/// lock outlives every failover only with [`all`](Self::all). With [`at_least`](Self::at_least), locks can be acquired
/// while a replica is unavailable.
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
/// let builder = Locks::builder("memory:").confirm(Replicas::all(), within);
/// # builder.build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas(Option<NonZeroU32>);

impl Replicas {
    /// Requires all replicas, and at least one. Their number is the highest that this `Locks` has seen since the server
    /// became the primary. It is at least the number that the sentinels, or the servers of the cluster, saw as healthy.
    /// A replica that is cut off still counts, because it may be promoted. A permanently removed replica also counts,
    /// until the next failover or the next start of this process.
    ///
    /// A replica counts as soon as it has loaded the data of its primary. It counts once, even if it returns with
    /// another address. A backup with `redis-cli --rdb` does not count. A replica of priority 0 counts although it is
    /// never promoted, because the server reports how many replicas have a lock, but not which ones.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// Requires at least `count` replicas, or one replica if `count` is 0.
    #[must_use]
    pub const fn at_least(count: u32) -> Self {
        match NonZeroU32::new(count) {
            Some(count) => Self(Some(count)),
            None => Self(Some(NonZeroU32::MIN)),
        }
    }

    /// The number of replicas that must have a lock if there are `all` replicas.
    pub(crate) fn of(self, all: u32) -> u32 {
        self.0.map_or(all.max(1), NonZeroU32::get)
    }
}

/// The number of replicas that must have a lock, and the time within which they must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// Milliseconds in 32 bits, to keep each hold small.
    within: NonZeroU32,
}

impl Confirm {
    pub(crate) fn new(replicas: Replicas, within: Duration) -> Result<Self, LockError> {
        let millis = u32::try_from(within.as_millis()).ok();
        match millis.and_then(NonZeroU32::new) {
            Some(within) => Ok(Self { replicas, within }),
            None => Err(LockError::config(format!(
                "the time limit of `confirm` must be between 1 ms and 49 days, not {within:?}"
            ))),
        }
    }

    pub(crate) fn within(self) -> Duration {
        Duration::from_millis(self.within.get().into())
    }
}

/// Whether replicas have the changes that the server has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    /// Too few of them had the changes in time.
    Late,
    /// The connection has failed, or was replaced.
    Unknown,
}
