//! The errors of the crate. There is one variant for each case in which a caller acts differently.

use std::fmt;
use std::time::Duration;

use crate::base::process::{Holder, Process};
use crate::base::sanitize::Sanitized;
pub use crate::base::store_error::StoreError;
pub(crate) use crate::base::store_error::{FailureClass, Mistake, StoreFuture};

/// Why a lock was not acquired, or was lost.
///
/// An error shows the key as the caller wrote it, without the prefix, and no password. What Redis said is its
/// [`source`](std::error::Error::source): print the whole chain, as `{:#}` of the usual error reporters does.
///
/// | error | ask | what to do | HTTP status |
/// |---|---|---|---|
/// | `Busy` | [`is_busy`](Self::is_busy) | try again later: another caller holds the lock | 409 |
/// | `Unavailable` | [`is_unavailable`](Self::is_unavailable) | try again later: Redis, or a replica, does not respond | 503 |
/// | `Closed`, `Lost` for that reason | [`is_closed`](Self::is_closed) | try another instance of the service: this one is shutting down | 503 |
/// | `Deadlock` | [`is_deadlock`](Self::is_deadlock) | run the outermost body again | 409 |
/// | `Lost` | [`is_lost`](Self::is_lost) | the body did not finish: check what it has done, then run it again | 500, or 503 if a second run is safe |
/// | `Misuse` | [`is_misuse`](Self::is_misuse) | fix the program, or a setting: trying again is useless | 500 |
///
/// # Examples
///
/// ```
/// use reentry::LockError;
///
/// /// Returns the HTTP status of a request that failed with this error.
/// fn status(error: &LockError) -> u16 {
///     if error.is_busy() || error.is_deadlock() {
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
    /// Another caller holds the lock, and kept it until the `wait` was over.
    #[error("`{}` is held by {}", Sanitized(.key), in_the_way(.holder.as_deref(), *.others, *.waited))]
    #[non_exhaustive]
    Busy {
        /// The key of the lock.
        key: String,
        /// How long the caller waited. Zero after a single attempt.
        waited: Duration,
        /// The holder of the lock shortly before the end of the wait. `None` after a single attempt, and if the store
        /// did not name it in time.
        holder: Option<Box<Holder>>,
        /// The number of other readers that shared the lock with the holder.
        others: usize,
    },
    /// Redis failed, or did not respond: for an [`outage`](crate::LocksBuilder::outage), until the `wait` was over, or
    /// to a request that does not wait. Or too few replicas [confirmed](crate::LocksBuilder::confirm) the lock in time,
    /// and the body did not begin. Try again later.
    #[error("Redis is unavailable")]
    #[non_exhaustive]
    Unavailable {
        /// The last error of the store.
        source: StoreError,
    },
    /// The lock was lost before the body finished, so the body was dropped.
    ///
    /// The next holder may have been inside for a while by then. See [`FencingToken`](crate::FencingToken).
    #[error("lost the lock on `{}`: {reason}", Sanitized(.key))]
    #[non_exhaustive]
    Lost {
        /// The key that was held.
        key: String,
        /// The reason for the loss.
        reason: LostReason,
    },
    /// Callers waited for each other, and this one was chosen to give way. The others continue to wait.
    ///
    /// Return this error from the bodies that hold the locks, so that the others acquire them, and run the outermost
    /// body again. To prevent it, take the locks together, with [`lock_all`](crate::Locks::lock_all), or in one order
    /// everywhere.
    #[error("gave up waiting for `{}` because of a deadlock: {}", Sanitized(.key), cycle_text(.cycle))]
    #[non_exhaustive]
    Deadlock {
        /// The key of the lock that the acquisition was waiting for.
        key: String,
        /// The call graphs that wait for each other. Each holds the lock that the one before it waits for. The first is
        /// the one that failed, and holds the lock that the last one waits for.
        cycle: Vec<Blocked>,
    },
    /// The [`Locks`](crate::Locks) is [closed](crate::Locks::close), and acquires no more locks.
    #[error("the `Locks` is closed")]
    Closed,
    /// A mistake in the program, or in a setting, so that trying again is useless.
    ///
    /// The program: an invalid key, options that contradict each other, a reader that wants to become a writer, or no
    /// `Locks` for `#[locked]`. Then nothing was sent. A setting: a key that holds something other than a lock
    /// (`WRONGTYPE`), a login that is missing or wrong (`NOAUTH`, `WRONGPASS`), a permission (`NOPERM`), or another
    /// reason that stays. A holder whose login is rejected keeps its lock while its lease lasts.
    #[error("{}", Sanitized(.what))]
    #[non_exhaustive]
    Misuse {
        /// The key that was requested. `None` if the mistake does not concern a single key.
        key: Option<String>,
        /// What is wrong, and what to do about it.
        what: String,
        /// The answer of Redis, if it found the mistake.
        source: Option<StoreError>,
    },
}

impl LockError {
    /// Returns whether another caller kept the lock for too long: try again later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Returns whether Redis or its replicas failed or did not respond, so that nothing is known about another holder.
    /// A lock that was lost [is something else](Self::is_lost), and so is a request that Redis [always
    /// rejects](Self::is_misuse).
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns whether the program, or a setting, must be fixed.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::Misuse { .. })
    }

    /// Returns whether the lock was held and then lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns whether this caller gave way in a deadlock: run the outermost body again.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self, Self::Deadlock { .. })
    }

    /// Returns whether the [`Locks`](crate::Locks) was [closed](crate::Locks::close) before the lock was acquired, or
    /// while it was held.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::Lost {
                    reason: LostReason::Closed,
                    ..
                }
        )
    }

    /// Returns the key that the error is about, without the prefix.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Busy { key, .. } | Self::Lost { key, .. } | Self::Deadlock { key, .. } => {
                Some(key)
            }
            Self::Misuse { key, .. } => key.as_deref(),
            Self::Unavailable { .. } | Self::Closed => None,
        }
    }

    /// Returns whether a hold was ended by its own limit, while it had its lock.
    pub(crate) fn is_max_hold(&self) -> bool {
        matches!(
            self,
            Self::Lost {
                reason: LostReason::MaxHold,
                ..
            }
        )
    }

    /// The error of a caller that does not wait.
    pub(crate) fn busy(key: &str) -> Self {
        Self::Busy {
            key: key.to_owned(),
            waited: Duration::ZERO,
            holder: None,
            others: 0,
        }
    }

    /// The error of a call that can never work with this key.
    pub(crate) fn misuse(key: &str, what: impl Into<String>) -> Self {
        Self::Misuse {
            key: Some(key.to_owned()),
            what: what.into(),
            source: None,
        }
    }

    /// The error of a reader that wants to become a writer.
    pub(crate) fn upgrade(key: &str) -> Self {
        let what = format!(
            "an enclosing call holds `{key}` as a reader, which cannot become a writer: acquire it exclusively from the start"
        );
        Self::misuse(key, what)
    }

    /// The error of a setting.
    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::Misuse {
            key: None,
            what: what.into(),
            source: None,
        }
    }

    /// The error of a request that the store has not executed.
    pub(crate) fn of_store(key: Option<String>, source: StoreError) -> Self {
        // A mistake is no outage: trying again later is useless, so the caller gets an error that says so.
        match source.mistake() {
            Some(mistake) => Self::Misuse {
                what: mistake.describe(key.as_deref()),
                key,
                source: Some(source),
            },
            None => Self::Unavailable { source },
        }
    }

    /// The error of the store behind this one.
    pub(crate) fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Unavailable { source } => Some(source),
            Self::Misuse { source, .. } => source.as_ref(),
            _ => None,
        }
    }
}

/// One of the call graphs that wait for each other in a [deadlock](crate::LockError::Deadlock).
///
/// Keys are shown without the prefix of the [`Locks`](crate::Locks) that found the deadlock. Keys that do not have that
/// prefix are shown in full.
///
/// # Examples
///
/// ```
/// use reentry::{Blocked, LockError};
///
/// /// Returns the keys of a deadlock, for a log.
/// fn cycle(error: &LockError) -> Vec<&str> {
///     match error {
///         LockError::Deadlock { cycle, .. } => cycle.iter().map(|it: &Blocked| &*it.holds).collect(),
///         _ => Vec::new(),
///     }
/// }
/// # assert!(cycle(&LockError::Closed).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Blocked {
    /// The id of the call graph that waits, a UUID.
    pub owner: String,
    /// The process of the call graph, as it described itself. `None` if the store does not know it.
    pub process: Option<Process>,
    /// The key that the call graph holds.
    pub holds: String,
    /// The key that the call graph waits for.
    pub waits_for: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = &self.owner;
        match &self.process {
            Some(process) => write!(f, "{process} ({owner})")?,
            None => write!(f, "{owner}")?,
        }
        let (holds, waits_for) = (Sanitized(&self.holds), Sanitized(&self.waits_for));
        write!(f, " holds `{holds}` and waits for `{waits_for}`")
    }
}
/// Why a lock was lost.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, LostReason};
///
/// let locks = Locks::in_memory();
/// let guard = locks.lock("order:42").acquire().await?;
/// locks.admin().force_release("order:42").await?;
/// assert_eq!(guard.held().lost().await, LostReason::Deleted);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease expired before a renewal was confirmed. The lock may still be in Redis, but nothing proves it.
    #[error("its lease expired before a renewal was confirmed")]
    Expired,
    /// The lock was released by force, or Redis lost its data: the key was deleted or flushed, or the server restarted
    /// without it.
    #[error("it was released by force, or Redis lost its data")]
    Deleted,
    /// The hold reached its `max_hold`.
    #[error("it was held for its `max_hold`")]
    MaxHold,
    /// Another lock of the same request was lost. [`LockError::Lost`](crate::LockError::Lost) names that lock.
    #[error("another lock of the same request was lost")]
    Sibling,
    /// [`Locks::close`](crate::Locks::close) ended the hold, and releases the lock.
    #[error("the `Locks` was closed")]
    Closed,
}

impl LostReason {
    /// The label in metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Deleted => "deleted",
            Self::MaxHold => "max_hold",
            Self::Sibling => "sibling",
            Self::Closed => "closed",
        }
    }
}

/// The holder that keeps a caller from its lock, as the end of a message.
fn in_the_way(holder: Option<&Holder>, others: usize, waited: Duration) -> String {
    let mut text = holder.map_or_else(|| "another caller".to_owned(), Holder::to_string);
    if others > 0 {
        text += &format!(" and {others} more");
    }
    if !waited.is_zero() {
        text += &format!(": gave up after {waited:.1?}");
    }
    text
}

/// The call graphs that wait for each other, in one line.
fn cycle_text(cycle: &[Blocked]) -> String {
    let cycle: Vec<_> = cycle.iter().map(Blocked::to_string).collect();
    cycle.join("; ")
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
