//! The errors of the crate. There is one variant for each case in which a caller acts differently.

use std::fmt;
use std::time::Duration;

pub(crate) use crate::base::error_details::{AnswerFuture, Effect, Mistake};
pub use crate::base::error_details::{Blocked, LostReason, StoreError};
use crate::base::holder::Holder;
use crate::base::shown::Shown;

/// The reason why a lock could not be acquired, kept or found.
///
/// A variant about one lock contains its key as the caller wrote it, without the prefix. A message shows control
/// characters of a key as U+FFFD, and contains no password. The error of the store is the
/// [`source`](std::error::Error::source). Print the whole chain of errors, as the usual error reporters do with `{:#}`.
///
/// # What to do
///
/// | error | ask | what to do | HTTP status |
/// |---|---|---|---|
/// | `Busy`, `Timeout` | [`is_contended`](Self::is_contended) | try again later: another caller holds the lock | 409 |
/// | `Unavailable`, `Unconfirmed` | [`is_unavailable`](Self::is_unavailable) | try again later: the store, or a replica, is unavailable | 503 |
/// | `Closed`, `Lost` for that reason | [`is_closed`](Self::is_closed) | try another instance of the service: this one is shutting down | 503 |
/// | `Deadlock` | [`is_deadlock`](Self::is_deadlock) | run the outermost section again | 409 |
/// | `Lost` | [`is_lost`](Self::is_lost) | the body did not finish: check what it has done, then run it again | 500 |
/// | `Misuse`, `AlreadyHeld`, `Upgrade`, `InUse`, `InvalidKey`, `Config`, `NoLocks`, `AlreadyInstalled` | [`is_misuse`](Self::is_misuse) | fix the program, or a setting: trying again is useless | 500 |
///
/// In the repository, `cargo run --example axum_orders` runs a web service that returns these statuses, with one exception.
/// It returns a 503 for a lost lock, because a second run is safe there.
///
/// # Examples
///
/// ```
/// use reentry::LockError;
///
/// /// Returns the HTTP status of a request that failed with this error.
/// fn status(error: &LockError) -> u16 {
///     if error.is_contended() || error.is_deadlock() {
///         409
///     } else if error.is_unavailable() || error.is_closed() {
///         503
///     } else {
///         500
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = reentry::Locks::in_memory();
/// let _elsewhere = locks.lock("order:42").await?;
/// let busy = locks.lock("order:42").no_wait().await.unwrap_err();
/// assert_eq!(status(&busy), 409);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another holder kept the lock until the `wait` was over.
    #[error("timed out waiting for the lock on `{}` after {waited:.1?}{}", Shown(.key), InTheWay(.holder, .others))]
    #[non_exhaustive]
    Timeout {
        /// The key of the lock.
        key: String,
        /// How long the caller waited.
        waited: Duration,
        /// The holder of the lock shortly before the end of the wait. `None` if the store did not name it in time.
        holder: Option<Box<Holder>>,
        /// The number of other readers that shared the lock with the holder.
        others: usize,
    },
    /// Another hold has the lock, and the request does not wait.
    #[error("`{}` is locked", Shown(.key))]
    #[non_exhaustive]
    Busy {
        /// The key that was requested.
        key: String,
    },
    /// The lock was held, and was lost before the body finished.
    ///
    /// The body may have run at the same time as the next holder for a while. See
    /// [`FencingToken`](crate::FencingToken).
    #[error("lost the lock on `{}`: {reason}", Shown(.key))]
    #[non_exhaustive]
    Lost {
        /// The key that was held.
        key: String,
        /// The reason for the loss.
        reason: LostReason,
    },
    /// An enclosing call holds the lock, and the request does not allow re-entry
    /// ([`Reentrancy::Forbid`](crate::Reentrancy::Forbid)).
    #[error("`{}` is already held by an enclosing call, and the request forbids re-entry", Shown(.key))]
    #[non_exhaustive]
    AlreadyHeld {
        /// The key that was requested.
        key: String,
    },
    /// An enclosing call shares the lock as a reader, and the request is for an exclusive lock. If this were allowed,
    /// two readers could each wait for the other to leave, until their `wait` is over. No request was sent.
    ///
    /// Acquire the lock exclusively from the start, and [downgrade](crate::Held::downgrade) it.
    #[error(
        "an enclosing call holds `{}` as a reader, which cannot be upgraded: acquire it exclusively from the start",
        Shown(.key)
    )]
    #[non_exhaustive]
    Upgrade {
        /// The key that was requested.
        key: String,
    },
    /// The lock cannot be [downgraded](crate::Held::downgrade), because nested calls or spawned work are inside it. No
    /// request was sent.
    #[error("`{}` cannot be downgraded, because nested calls or spawned work are inside it", Shown(.key))]
    #[non_exhaustive]
    InUse {
        /// The key that is held.
        key: String,
    },
    /// The call graph was waiting for itself through others. It holds a lock that a second call graph waits for, the
    /// second holds a lock that a third one waits for, and so on. The last of them holds the lock on `key`. This
    /// acquisition was chosen to fail. The others continue to wait.
    ///
    /// Return this error from the bodies that hold the locks, so that the locks are released and the others acquire
    /// them. After that, the whole section may be run again. Sections that acquire their locks in the same order never
    /// deadlock.
    #[error("gave up waiting for `{}` because of a deadlock: {}", Shown(.key), Ring(.cycle))]
    #[non_exhaustive]
    Deadlock {
        /// The key of the lock that the acquisition was waiting for.
        key: String,
        /// The call graphs that wait for each other. Each holds the lock that the one before it waits for. The first is
        /// the one that failed, and holds the lock that the last one waits for.
        cycle: Vec<Blocked>,
    },
    /// The key is not a valid name of a lock. No request was sent.
    #[error("invalid key `{}`: {reason}", Shown(.key))]
    #[non_exhaustive]
    InvalidKey {
        /// The key as the caller wrote it.
        key: String,
        /// What is wrong with the key.
        reason: &'static str,
    },
    /// The options contradict each other, or cannot be satisfied. No request was sent.
    #[error("invalid options: {}", Shown(.reason))]
    #[non_exhaustive]
    Config {
        /// What is wrong with the options.
        reason: String,
    },
    /// The store failed, or did not respond: until the `wait` of an acquisition was over, for an
    /// [`outage`](crate::LocksBuilder::outage), or to a request that does not wait. Try again later.
    #[error("Redis is unavailable{}", OfRequest(.key))]
    #[non_exhaustive]
    Unavailable {
        /// The key that was requested. `None` if the request was not for a single key, for example if no connection
        /// could be made.
        key: Option<String>,
        /// The last error of the store.
        source: StoreError,
    },
    /// A mistake in the program, or in a setting, which makes every repetition of the request useless. The key holds
    /// something other than a lock (`WRONGTYPE`), the login is missing or wrong (`NOAUTH`, `WRONGPASS`), the user lacks
    /// a permission (`NOPERM`), or the server rejects the request for another reason that stays.
    ///
    /// A holder whose login is rejected keeps its lock, and repeats its requests while its lease lasts.
    #[error("{}", Shown(.what))]
    #[non_exhaustive]
    Misuse {
        /// The key that was requested. `None` if the request was not for a single key.
        key: Option<String>,
        /// What is wrong, and what to do about it.
        what: String,
        /// The answer of the store, if it found the mistake.
        source: Option<StoreError>,
    },
    /// The lock was acquired, but too few replicas confirmed it in time. See
    /// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm). The lock was released before the body began.
    #[error("too few replicas confirmed the lock on `{}` within {within:?}", Shown(.key))]
    #[non_exhaustive]
    Unconfirmed {
        /// The key that was requested.
        key: String,
        /// The time within which the replicas had to confirm.
        within: Duration,
        /// The last error of the server, if it did not report how many replicas have the lock. If the user may not run
        /// `WAIT`, the error is [`Misuse`](Self::Misuse), immediately.
        source: Option<StoreError>,
    },
    /// The [`Locks`](crate::Locks) is [closed](crate::Locks::close), and acquires no more locks.
    #[error("the request for `{}` was rejected, because the `Locks` is closed", Shown(.key))]
    #[non_exhaustive]
    Closed {
        /// The key that was requested.
        key: String,
    },
    /// A function with `#[locked]` ran outside every [`Locks::scope`](crate::Locks::scope), and no
    /// [`Locks`](crate::Locks) is [installed](crate::Locks::install).
    #[error(
        "`{function}` has no `Locks` to lock `{}` with: call `Locks::install` at startup, or call the function \
         inside `Locks::scope`",
        Shown(.key)
    )]
    #[non_exhaustive]
    NoLocks {
        /// The function with the attribute.
        function: &'static str,
        /// The key that the function would lock. If there are several, this is the first one in the attribute.
        key: String,
    },
    /// [`Locks::install`](crate::Locks::install) was called a second time.
    #[error("a `Locks` is already installed in this process")]
    AlreadyInstalled,
}

impl LockError {
    /// Returns whether another holder kept the lock for too long, so that it makes sense to try again later.
    ///
    /// Returns `false` if the store failed in the end, or has not responded at all. Then nothing is known about another
    /// holder.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Timeout { .. })
    }

    /// Returns whether the store or its replicas failed or did not respond, so that nothing is known about another
    /// holder.
    ///
    /// Returns `false` for a lock that was held and lost (see [`is_lost`](Self::is_lost)), and for a request that the
    /// store will always reject (see [`is_misuse`](Self::is_misuse)).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unconfirmed { .. })
    }

    /// Returns whether the program, or a setting, must be fixed, so that it is useless to try again.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(
            self,
            Self::Misuse { .. }
                | Self::AlreadyHeld { .. }
                | Self::Upgrade { .. }
                | Self::InUse { .. }
                | Self::InvalidKey { .. }
                | Self::Config { .. }
                | Self::NoLocks { .. }
                | Self::AlreadyInstalled
        )
    }

    /// Returns whether the lock was held and then lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns whether the acquisition was chosen to break a deadlock, so that it makes sense to run the whole section
    /// again.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self, Self::Deadlock { .. })
    }

    /// Returns whether the [`Locks`](crate::Locks) was [closed](crate::Locks::close) before the lock was acquired, or
    /// while it was held.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let lost_by = match self {
            Self::Lost { reason, .. } => Some(*reason),
            _ => None,
        };
        matches!(self, Self::Closed { .. }) || lost_by == Some(LostReason::Closed)
    }

    pub(crate) fn config(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Config { reason }
    }

    /// The error of a request that the store has not executed.
    pub(crate) fn of_store(key: Option<String>, source: StoreError) -> Self {
        match source.mistake() {
            Some(mistake) => Self::Misuse {
                what: mistake.describe(key.as_deref()),
                key,
                source: Some(source),
            },
            None => Self::Unavailable { key, source },
        }
    }

    /// The error of the store behind this one.
    pub(crate) fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Unavailable { source, .. } => Some(source),
            Self::Misuse { source, .. } | Self::Unconfirmed { source, .. } => source.as_ref(),
            _ => None,
        }
    }

    /// Returns the key that the error is about, without the prefix.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Timeout { key, .. }
            | Self::Busy { key }
            | Self::Lost { key, .. }
            | Self::AlreadyHeld { key }
            | Self::Upgrade { key }
            | Self::InUse { key }
            | Self::Deadlock { key, .. }
            | Self::Closed { key }
            | Self::Unconfirmed { key, .. }
            | Self::NoLocks { key, .. }
            | Self::InvalidKey { key, .. } => Some(key),
            Self::Unavailable { key, .. } | Self::Misuse { key, .. } => key.as_deref(),
            Self::Config { .. } | Self::AlreadyInstalled => None,
        }
    }
}

/// The holder of the lock, if it is known, as a part of a message.
struct InTheWay<'a>(&'a Option<Box<Holder>>, &'a usize);

impl fmt::Display for InTheWay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(holder, others) = self;
        match holder {
            Some(holder) if **others > 0 => write!(f, ": held by {holder} and {others} more"),
            Some(holder) => write!(f, ": held by {holder}"),
            None => Ok(()),
        }
    }
}

/// The request that failed, as the end of a message.
struct OfRequest<'a>(&'a Option<String>);

impl fmt::Display for OfRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, ": the request for `{}` failed", Shown(key)),
            None => Ok(()),
        }
    }
}

/// The call graphs that wait for each other, in one line.
struct Ring<'a>(&'a [Blocked]);

impl fmt::Display for Ring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, blocked) in self.0.iter().enumerate() {
            let before = if at == 0 { "" } else { "; " };
            write!(f, "{before}{blocked}")?;
        }
        Ok(())
    }
}

/// The reason why a step of a hold failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Lost(LostReason),
    Store(StoreError),
}

impl Failure {
    /// Returns the error for the lock that is named `key`.
    pub(crate) fn on(self, key: &str) -> LockError {
        let key = key.to_owned();
        match self {
            Self::Lost(reason) => LockError::Lost { key, reason },
            Self::Store(source) => LockError::of_store(Some(key), source),
        }
    }
}
