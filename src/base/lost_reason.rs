//! The reasons why a lock is lost.

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
