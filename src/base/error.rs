//! The errors of the crate: one variant for each case in which a caller acts differently.

use std::fmt;
use std::time::Duration;

pub(crate) use crate::base::error_details::{AnswerFuture, Effect};
pub use crate::base::error_details::{Blocked, LostReason, StoreError};
use crate::base::holder::Holder;

/// Why a lock could not be taken, kept or found.
///
/// Variants about one lock name its key as the caller wrote it, without the prefix. No message contains
/// a password. The error of the store is the [`source`](std::error::Error::source): print the whole chain, as
/// `{:#}` of the usual error reporters does.
///
/// # What to do
///
/// | error | ask | what to do | HTTP status |
/// |---|---|---|---|
/// | `Busy`, `Timeout` | [`is_contended`](Self::is_contended) | try again later: another caller has the lock | 409 |
/// | `Store`, `Unconfirmed`, `Timeout` with a source | [`is_unavailable`](Self::is_unavailable) | try again later: the store, or a replica, is away | 503 |
/// | `Closed`, `Lost` for that reason | [`is_closed`](Self::is_closed) | try another instance of the service: this one is shutting down | 503 |
/// | `Deadlock` | [`is_deadlock`](Self::is_deadlock) | run the outermost section again | 409 |
/// | `Lost` | [`is_lost`](Self::is_lost) | the body did not finish: check what it has done, then run it again | 500 |
/// | `AlreadyHeld`, `Upgrade`, `InUse`, `InvalidKey`, `Config`, `NoLocks`, `AlreadyInstalled` | | fix the program | 500 |
///
/// In the repository, `cargo run --example axum_orders` is a web service that returns these statuses, except one: a lost
/// lock is a 503 there, since a second run is safe.
///
/// # Examples
///
/// ```
/// use reentry::LockError;
///
/// /// The HTTP status of a request that failed with this error.
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
    /// The lock could not be taken within `wait`, before the attempts of [`Wake::Poll`](crate::Wake::Poll) were used up, or
    /// before the store was silent for an [`outage`](crate::LocksBuilder::outage).
    #[error("no lock on `{key}` after waiting {waited:.1?}{}", InTheWay(.holder, .others))]
    #[non_exhaustive]
    Timeout {
        /// The key that was waited for.
        key: String,
        /// How long the caller waited.
        waited: Duration,
        /// The holder of the lock shortly before the end of the wait; `None` if the store failed in the end, or did not
        /// name the holder in time.
        holder: Option<Box<Holder>>,
        /// The number of other readers that shared the lock with the holder.
        others: usize,
        /// The last error of the store, which may be that it did not answer in time; `None` if the store answered in the
        /// end.
        source: Option<StoreError>,
    },
    /// Another hold has the lock, and the request was made without waiting.
    #[error("`{key}` is locked")]
    #[non_exhaustive]
    Busy {
        /// The key that was requested.
        key: String,
    },
    /// The lock was held, and was lost before the body finished.
    ///
    /// The body may have worked beside the next holder for a while: see
    /// [`FencingToken`](crate::FencingToken).
    #[error("lost the lock on `{key}`: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The key that was held.
        key: String,
        /// How the lock was lost.
        reason: LostReason,
    },
    /// An enclosing call holds the lock, and the request forbids re-entering it
    /// ([`Reentrancy::Forbid`](crate::Reentrancy::Forbid)).
    #[error("`{key}` is already held by an enclosing call")]
    #[non_exhaustive]
    AlreadyHeld {
        /// The key that was requested.
        key: String,
    },
    /// An enclosing call shares the lock, as a reader, and the request wants it exclusively. Two readers that
    /// wait for each other to leave would wait until their `wait` is over. No request was sent.
    ///
    /// Take the lock exclusively from the start, and [downgrade](crate::Held::downgrade) it.
    #[error("`{key}` is shared by an enclosing call, and cannot be taken exclusively under it")]
    #[non_exhaustive]
    Upgrade {
        /// The key that was requested.
        key: String,
    },
    /// The lock cannot be [downgraded](crate::Held::downgrade), since nested calls or spawned work are
    /// inside it. No request was sent.
    #[error("`{key}` is in use by nested calls or by spawned work")]
    #[non_exhaustive]
    InUse {
        /// The key that is held.
        key: String,
    },
    /// The call graph waited for itself, by way of others: it holds a lock that a second call graph waits for, which holds
    /// a lock that a third one waits for, and so on, until one of them holds the lock on `key`. This acquisition
    /// was chosen to give way; the others go on waiting.
    ///
    /// Return this error from the bodies that hold the locks, so that the locks are released and the others get them. The
    /// whole section may be tried again after that. Sections that take their locks in one order have no
    /// deadlocks.
    #[error("gave up waiting for `{key}` because of a deadlock: {}", Ring(.cycle))]
    #[non_exhaustive]
    Deadlock {
        /// The key that was waited for.
        key: String,
        /// The call graphs that wait for each other: each holds the lock that the one before it waits for, and the first,
        /// which gave way, holds the lock that the last one waits for.
        cycle: Vec<Blocked>,
    },
    /// The key cannot name a lock. No request was sent.
    #[error("invalid key `{key}`: {reason}")]
    #[non_exhaustive]
    InvalidKey {
        /// The key as it was given.
        key: String,
        /// What is wrong with the key.
        reason: &'static str,
    },
    /// The options contradict each other or cannot be met. No request was sent.
    #[error("invalid options: {reason}")]
    #[non_exhaustive]
    Config {
        /// What is wrong with the options.
        reason: String,
    },
    /// The store failed, and waiting longer would not help.
    #[error("{}", StoreFailed(.key, .source))]
    #[non_exhaustive]
    Store {
        /// The key that was requested; `None` if the connection itself could not be made.
        key: Option<String>,
        /// The error of the store.
        source: StoreError,
    },
    /// The lock was taken, but too few replicas had it in time; see
    /// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm). The lock was released before the body began.
    #[error("too few replicas had the lock on `{key}` within {within:?}")]
    #[non_exhaustive]
    Unconfirmed {
        /// The key that was requested.
        key: String,
        /// The time within which the replicas had to confirm.
        within: Duration,
        /// The last error of the server, if it did not report how many replicas have the lock. An error that no repetition
        /// can change ends the wait at once, for example if the user may not run `WAIT`.
        source: Option<StoreError>,
    },
    /// The [`Locks`](crate::Locks) is [closed](crate::Locks::close), and takes no more locks.
    #[error("`{key}` is not taken, since the `Locks` is closed")]
    #[non_exhaustive]
    Closed {
        /// The key that was requested.
        key: String,
    },
    /// `#[locked]` ran outside every [`Locks::scope`](crate::Locks::scope), and no
    /// [`Locks`](crate::Locks) is [installed](crate::Locks::install).
    #[error(
        "no `Locks` in scope for `{function}` to lock `{key}`: call `Locks::install` at start-up or run \
         inside `Locks::scope`"
    )]
    #[non_exhaustive]
    NoLocks {
        /// The function with the attribute.
        function: &'static str,
        /// The key that the function would lock; if there are several, the first in the attribute.
        key: String,
    },
    /// [`Locks::install`](crate::Locks::install) was called a second time.
    #[error("a `Locks` is already installed in this process")]
    AlreadyInstalled,
}

impl LockError {
    /// Whether another holder had the lock for too long, so that trying again later makes sense.
    ///
    /// Returns false if the store failed in the end, or has not answered at all: then nothing is known about
    /// another holder.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Timeout { source: None, .. })
    }

    /// Whether the store, or its replicas, failed or did not answer, so that nothing is known about another holder.
    ///
    /// Returns false for a lock that was held and lost; see [`is_lost`](Self::is_lost).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Store { .. }
                | Self::Unconfirmed { .. }
                | Self::Timeout {
                    source: Some(_),
                    ..
                }
        )
    }

    /// Whether the lock was held and then lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the acquisition was chosen to end a deadlock, so that trying the whole section again makes sense.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self, Self::Deadlock { .. })
    }

    /// Whether the [`Locks`](crate::Locks) was [closed](crate::Locks::close): before the lock could be taken, or while
    /// it was held.
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

    /// The key that the error is about, without the prefix.
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
            Self::Store { key, .. } => key.as_deref(),
            Self::Config { .. } | Self::AlreadyInstalled => None,
        }
    }
}

/// The holder of the lock, where it is known, as a part of a message.
struct InTheWay<'a>(&'a Option<Box<Holder>>, &'a usize);

impl fmt::Display for InTheWay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(holder, others) = self;
        match holder {
            Some(holder) if **others > 0 => write!(f, ": held by {holder} and {others} others"),
            Some(holder) => write!(f, ": held by {holder}"),
            None => Ok(()),
        }
    }
}

/// The step that failed, of a lock or of the connection itself, as a message.
struct StoreFailed<'a>(&'a Option<String>, &'a StoreError);

impl fmt::Display for StoreFailed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "the store failed on `{key}`"),
            None if self.1.is_refused() => f.write_str("the store refuses"),
            None => f.write_str("the store cannot be reached"),
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

/// The reason why a step of a hold did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Lost(LostReason),
    Store(StoreError),
}

impl Failure {
    /// The error of the lock that is named `key`.
    pub(crate) fn on(self, key: &str) -> LockError {
        let key = key.to_owned();
        match self {
            Self::Lost(reason) => LockError::Lost { key, reason },
            Self::Store(source) => LockError::Store {
                key: Some(key),
                source,
            },
        }
    }
}
