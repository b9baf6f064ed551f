//! P13 for bodies that return a `Result`: one `?` replaces two, and the body's own error is kept.

use crate::support::in_memory;
use reentry::{LockError, Locks};

in_memory!(
    an_error_of_the_body_is_returned_unchanged,
    the_lock_s_errors_are_converted,
);

#[derive(Debug, PartialEq)]
enum Failure {
    OutOfStock(u32),
    Locked(Option<String>),
    Lost,
    Other,
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            _ if error.is_busy() => Self::Locked(error.key().map(str::to_owned)),
            LockError::Lost { .. } => Self::Lost,
            _ => Self::Other,
        }
    }
}

async fn an_error_of_the_body_is_returned_unchanged(locks: Locks) {
    let body = async { Err::<(), _>(Failure::OutOfStock(7)) };
    let result = locks.try_with_lock("key", body).await;
    assert_eq!(result, Err(Failure::OutOfStock(7)));
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
    // This also covers the error of an inner call, through `?`.
    let inner = || locks.try_with_lock("key", async { Err::<(), _>(Failure::OutOfStock(8)) });
    let outer = locks.try_with_lock("key", async {
        inner().await?;
        unreachable!("the inner call failed");
    });
    assert_eq!(outer.await as Result<(), _>, Err(Failure::OutOfStock(8)));
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

async fn the_lock_s_errors_are_converted(locks: Locks) {
    let body = || async { Ok::<_, Failure>(()) };
    let guard = locks.lock("key").await.unwrap();
    let busy = locks.lock("key").no_wait().try_run(body()).await;
    assert_eq!(busy, Err(Failure::Locked(Some("key".to_owned()))));
    guard.release().await.unwrap();

    let invalid = locks.try_with_lock("", body()).await;
    assert_eq!(invalid, Err(Failure::Other));
    let upgrade = locks.try_with_lock("key", body());
    let refused = locks.lock("key").read().try_run(upgrade).await;
    assert_eq!(refused, Err(Failure::Other));

    let body = async {
        assert!(locks.admin().force_release("key").await.unwrap());
        std::future::pending::<Result<(), Failure>>().await
    };
    assert_eq!(locks.try_with_lock("key", body).await, Err(Failure::Lost));
}
