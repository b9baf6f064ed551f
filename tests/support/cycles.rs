//! Callers that wait for each other.

use reentry::{LockError, Locks};
use tokio::sync::Barrier;

/// Two callers that each hold what the other one wants. Returns the error of the one that gave way, if one did.
pub async fn cycle(locks: &Locks, one: &str, other: &str) -> Result<(), LockError> {
    let both = Barrier::new(2);
    let nest = async |outer: &str, inner: &str| {
        let body = async {
            both.wait().await;
            locks.with_lock(inner, async {}).await
        };
        locks.try_with_lock(outer, body).await
    };
    let nested = tokio::join!(nest(one, other), nest(other, one));
    nested.0.and(nested.1)
}
