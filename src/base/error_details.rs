//! The details of a [`LockError`](crate::LockError): the failure of the store, the reason of a loss, the ring of a deadlock.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::base::id::OwnerId;
use crate::base::process::Process;

/// An error of the store: the connection failed, the server rejected the request, or its answer cannot be read.
///
/// The type is opaque on purpose: its [`source`](Error::source) is a text, so that the types of the Redis client are no
/// part of this interface.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{LockError, Locks};
/// use std::error::Error;
///
/// let away = Locks::connect("redis://127.0.0.1:1").await;
/// let Err(LockError::Store { source, .. }) = away else { panic!("no server is there") };
/// println!("{source}"); // connecting failed at 127.0.0.1:1
/// assert!(source.source().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StoreError(Arc<StoreFault>);

/// The answer of a store to one request.
pub(crate) type AnswerFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

struct StoreFault {
    step: &'static str,
    endpoint: Arc<str>,
    effect: Effect,
    cause: Box<dyn Error + Send + Sync>,
}

/// What a failed request may have done, and whether it makes sense to send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The request may have been executed, or may still be.
    Unknown,
    /// The request was not executed. Another attempt may succeed.
    None,
    /// The request was not executed: the server, or a proxy before it, rejects the process. A caller without a lock fails at
    /// once. A caller with a lock asks again, since a password may be corrected.
    TurnedAway,
    /// The request was not executed, and never will be: another attempt is of no use.
    Refused,
}

impl Effect {
    /// Whether a caller without a lock gives up.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Self::TurnedAway | Self::Refused)
    }
}

impl StoreError {
    pub(crate) fn new(
        step: &'static str,
        endpoint: &Arc<str>,
        effect: Effect,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let endpoint = Arc::clone(endpoint);
        Self(Arc::new(StoreFault {
            step,
            endpoint,
            effect,
            cause: cause.into(),
        }))
    }

    pub(crate) fn effect(&self) -> Effect {
        self.0.effect
    }

    /// See [`Effect::is_refused`].
    pub(crate) fn is_refused(&self) -> bool {
        self.effect().is_refused()
    }

    /// Whether the request may have been executed although no answer came.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.effect() == Effect::Unknown
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed at {}", self.0.step, self.0.endpoint)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("step", &self.0.step)
            .field("endpoint", &self.0.endpoint)
            .field("effect", &self.0.effect)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.cause)
    }
}

/// The reason why a lock was lost.
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
/// locks.force_release("order:42").await?;
/// assert_eq!(guard.held().lost().await, LostReason::Gone);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The store no longer knows the hold: the key was deleted, flushed or force-released, or the
    /// server came back without its data.
    #[error("the store no longer holds it")]
    Gone,
    /// The lease expired before a renewal was confirmed. The lock may still be in the store, but
    /// nothing proves it.
    #[error("its lease ended without a confirmed renewal")]
    Unconfirmed,
    /// The hold reached its `max_hold`.
    #[error("it was held for its `max_hold`")]
    MaxHold,
    /// Another lock was lost that was taken together with this one. [`LockError::Lost`](crate::LockError::Lost) names the other
    /// one.
    #[error("another one was lost that was taken together with it")]
    WithAnother,
    /// [`Locks::close_within`](crate::Locks::close_within) ended the hold, and releases the lock.
    #[error("the `Locks` was closed")]
    Closed,
}

impl LostReason {
    /// The label in metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Unconfirmed => "unconfirmed",
            Self::MaxHold => "max_hold",
            Self::WithAnother => "with_another",
            Self::Closed => "closed",
        }
    }
}

/// One of the call graphs that wait for each other in a [deadlock](crate::LockError::Deadlock).
///
/// Keys are named without the prefix of the [`Locks`](crate::Locks) that found the deadlock; keys without
/// that prefix are named in full.
///
/// # Examples
///
/// ```
/// use reentry::{Blocked, LockError};
///
/// /// The keys of a deadlock, for a log.
/// fn ring(error: &LockError) -> Vec<&str> {
///     match error {
///         LockError::Deadlock { cycle, .. } => cycle.iter().map(|it: &Blocked| &*it.holds).collect(),
///         _ => Vec::new(),
///     }
/// }
/// # assert!(ring(&LockError::AlreadyInstalled).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Blocked {
    /// The call graph that waits.
    pub owner: OwnerId,
    /// The process of the call graph, as it has described itself; `None` if the store does not know it.
    pub process: Option<Process>,
    /// The key that the call graph holds.
    pub holds: String,
    /// The key that the call graph waits for.
    pub waits_for: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            owner,
            process,
            holds,
            waits_for,
        } = self;
        match process {
            Some(process) => write!(f, "{process} ({owner})")?,
            None => write!(f, "{owner}")?,
        }
        write!(f, " holds `{holds}` and waits for `{waits_for}`")
    }
}
