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

/// The number of replicas that must have a lock, and the time within which they must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Confirm {
    replicas: NonZeroU32,
    /// Milliseconds in 32 bits, to keep each hold small.
    within: NonZeroU32,
}

impl Confirm {
    pub(crate) fn new(replicas: u32, within: Duration) -> Result<Self, LockError> {
        let replicas = NonZeroU32::new(replicas)
            .ok_or_else(|| LockError::config("`confirm` requires at least one replica"))?;
        let millis = u32::try_from(within.as_millis()).ok();
        match millis.and_then(NonZeroU32::new) {
            Some(within) => Ok(Self { replicas, within }),
            None => Err(LockError::config(format!(
                "the time limit of `confirm` must be between 1 ms and 49 days, not {within:?}"
            ))),
        }
    }

    pub(crate) fn replicas(self) -> u32 {
        self.replicas.get()
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
