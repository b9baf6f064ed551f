//! `#[locked]`: a call runs under the lock of its key, and whatever fails is an error that the function can return.

use reentry::{LockError, Locks, held, locked};

#[derive(Debug, thiserror::Error)]
#[error("not locked")]
struct NotLocked(#[from] LockError);

#[locked("order:{id}")]
async fn ship(id: u64) -> Result<(), NotLocked> {
    Ok(())
}

#[locked("tree:{root}")]
async fn walk(root: u32, below: u32) -> Result<u32, LockError> {
    if below == 0 {
        return Ok(held(format!("tree:{root}")).map_or(0, |held| held.depth()));
    }
    walk(root, below - 1).await
}

#[tokio::test(start_paused = true)]
async fn recursion_reenters_the_lock_and_needs_no_box() {
    let locks = Locks::in_memory();
    assert_eq!(locks.scope(walk(7, 200)).await.unwrap(), 201);
    assert!(locks.admin().inspect("tree:7").await.unwrap().is_none());
}

#[tokio::test]
async fn without_locks_it_is_an_error_that_the_function_can_return() {
    let NotLocked(error) = ship(1).await.unwrap_err();
    assert!(error.is_misuse(), "{error:?}");
    assert_eq!(error.key(), Some("order:1"));
    assert!(error.to_string().contains("`ship`"), "{error}");
}
