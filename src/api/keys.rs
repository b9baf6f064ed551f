//! The keys of a request: one key, or several.

use smallvec::{SmallVec, smallvec};

/// The keys to lock.
#[derive(Clone, Debug)]
pub struct Keys(pub(super) SmallVec<[String; 1]>);

/// The key of a [`LockRequest`](crate::LockRequest) for one lock.
///
/// # Examples
///
/// ```
/// use reentry::{LockRequest, Locks, OneKey};
///
/// let request: LockRequest<OneKey> = Locks::in_memory().lock("order:42");
/// # drop(request);
/// ```
#[derive(Clone, Debug)]
pub struct OneKey(pub(super) String);

/// The keys of a [`LockAllRequest`](crate::LockAllRequest).
///
/// # Examples
///
/// ```
/// use reentry::{LockRequest, Locks, SeveralKeys};
///
/// let request: LockRequest<SeveralKeys> = Locks::in_memory().lock_all(["account:1", "account:2"]);
/// # drop(request);
/// ```
#[derive(Clone, Debug)]
pub struct SeveralKeys(pub(super) Vec<String>);

impl From<OneKey> for Keys {
    fn from(key: OneKey) -> Self {
        Self(smallvec![key.0])
    }
}

impl From<SeveralKeys> for Keys {
    fn from(keys: SeveralKeys) -> Self {
        Self(keys.0.into())
    }
}
