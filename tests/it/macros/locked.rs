//! `#[locked]`: a call runs under the lock of its key.

use std::time::Duration;

use reentry::{LockError, Locks, held, locked};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum ShipError {
    #[error("not locked")]
    NotLocked(#[from] LockError),
    #[error("no number")]
    NoNumber(#[from] std::num::ParseIntError),
}

/// Stays in the section for `millis`, and returns the depth of the lock.
#[locked("order:{id}")]
async fn ship(id: u64, millis: u64) -> Result<u32, ShipError> {
    sleep(Duration::from_millis(millis)).await;
    Ok(held(format!("order:{id}")).map_or(0, |held| held.depth()))
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

#[locked("parse:{text}")]
async fn parse(text: &str) -> Result<u32, ShipError> {
    let number = text.parse()?;
    if number == 0 {
        return Err(Locks::in_memory().lock("").await.unwrap_err().into());
    }
    Ok(number)
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_released_whichever_way_the_body_ends() {
    let locks = Locks::in_memory();
    assert_eq!(locks.scope(parse("5")).await.unwrap(), 5);
    assert!(matches!(
        locks.scope(parse("x")).await,
        Err(ShipError::NoNumber(_))
    ));
    assert!(matches!(
        locks.scope(parse("0")).await,
        Err(ShipError::NotLocked(_))
    ));
    for text in ["5", "x", "0"] {
        assert!(
            locks
                .admin()
                .inspect(format!("parse:{text}"))
                .await
                .unwrap()
                .is_none(),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_releases_the_lock() {
    let locks = Locks::in_memory();
    timeout(SECOND, locks.scope(ship(1, 3_600_000)))
        .await
        .unwrap_err();
    assert_eq!(locks.scope(ship(1, 0)).await.unwrap(), 1);
}

#[tokio::test]
async fn without_locks_it_is_an_error_that_the_function_can_return() {
    let ShipError::NotLocked(error) = ship(1, 0).await.unwrap_err() else {
        panic!("not the error of the lock");
    };
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    assert_eq!(error.key(), Some("order:1"));
    assert!(error.to_string().contains("`ship`"), "{error}");
}
