//! Which callers of its own process want the lock of a holder, while the store answers late.

use std::pin::pin;

use futures_util::FutureExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn one_that_makes_a_single_attempt_does_not_want_the_lock() -> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    process.store.is_slow.store(true, Relaxed);
    let mut wanted = pin!(guard.held().wanted());
    let attempt = process.locks.lock(KEY).no_wait().acquire();
    let tried = tokio::select! {
        biased;
        () = &mut wanted => panic!("an attempt is no wait"),
        tried = attempt => tried,
    };
    assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    assert!(wanted.as_mut().now_or_never().is_none());
    let waiting = process.wait();
    let told = timeout(SECOND, wanted).await;
    assert!(told.is_ok(), "a caller waits");
    waiting.abort();
    Ok(())
}
