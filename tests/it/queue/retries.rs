//! `retry`: single attempts with an interval between them, in place of a wait.

use std::time::Duration;

use reentry::{LockError, Locks};
use tokio::time::{Instant, sleep};

use crate::support::rig::KEY;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_attempts_are_made_in_their_interval_and_the_last_is_busy() {
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await.unwrap();
    let begun = Instant::now();
    let tried = locks.lock(KEY).retry(4, SECOND).await;
    assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    assert_eq!(begun.elapsed(), 3 * SECOND);
    // It has not waited, and leaves nothing.
    guard.release().await.unwrap();
    assert!(locks.admin().inspect(KEY).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_after_a_release_enters() {
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await.unwrap();
    let begun = Instant::now();
    let entered = async {
        let retried = locks.lock(KEY).retry(100, SECOND);
        retried.run(async { begun.elapsed() }).await
    };
    let released = async {
        sleep(5 * SECOND / 2).await;
        guard.release().await
    };
    let (entered, released) = tokio::join!(entered, released);
    released.unwrap();
    assert_eq!(entered.unwrap(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_several_keys_takes_all_of_them_or_none() {
    let locks = Locks::in_memory();
    let guard = locks.lock("b").await.unwrap();
    let all = || locks.lock_all(["a", "b"]).retry(2, SECOND);
    let tried = all().await;
    assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    assert!(locks.admin().inspect("a").await.unwrap().is_none());
    guard.release().await.unwrap();
    all().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_nested_retry_enters_at_once() {
    let locks = Locks::in_memory();
    let begun = Instant::now();
    let nested = locks.lock(KEY).retry(3, SECOND).run(async {});
    locks.with_lock(KEY, nested).await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_retry_ends_when_the_locks_are_closed() {
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await.unwrap();
    let begun = Instant::now();
    let retries = tokio::spawn(locks.lock(KEY).retry(10, 3_600 * SECOND).run(async {}));
    sleep(SECOND).await;
    let closing = tokio::spawn({
        let locks = locks.clone();
        async move { locks.close(Duration::MAX).await }
    });
    let retried = retries.await.unwrap();
    assert!(matches!(retried, Err(LockError::Closed)));
    assert_eq!(begun.elapsed(), SECOND);
    guard.release().await.unwrap();
    closing.await.unwrap();
}
