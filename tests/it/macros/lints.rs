//! `#[locked]`: clippy says nothing of a function that it does not say of the plain one. `cargo clippy` is the test.

#![deny(clippy::pedantic)]

use reentry::{LockError, Locks, locked};

#[locked("order:{id}")]
async fn imports(id: u64) -> Result<String, LockError> {
    use std::fmt::Write as _;

    let mut text = String::new();
    let _ = write!(text, "order {id}");
    tokio::task::yield_now().await;
    Ok(text)
}

#[locked(key = "nightly", held = lock)]
async fn constants(_by: &str) -> Result<u32, LockError> {
    const STEP: u32 = 5;

    tokio::task::yield_now().await;
    Ok(STEP + lock.depth())
}

#[allow(clippy::manual_async_fn, reason = "that is the form")]
#[locked("{from}", "{to}")]
fn functions(from: u32, to: u32) -> impl Future<Output = Result<u32, LockError>> {
    async move {
        fn sum(from: u32, to: u32) -> u32 {
            from + to
        }

        tokio::task::yield_now().await;
        Ok(sum(from, to))
    }
}

#[tokio::test]
async fn a_body_may_begin_with_items() {
    let locks = Locks::in_memory();
    assert_eq!(locks.scope(imports(7)).await.unwrap(), "order 7");
    assert_eq!(locks.scope(constants("cron")).await.unwrap(), 6);
    assert_eq!(locks.scope(functions(1, 2)).await.unwrap(), 3);
}
