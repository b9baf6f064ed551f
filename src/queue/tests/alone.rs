//! A caller that is alone in its local queue polls its own request, and another caller joins.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::task::yield_now;

use super::*;

type Section = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Makes another caller join while the request of the next one is polled. Returns it.
fn meanwhile(process: &Process) -> Arc<Mutex<Option<Section>>> {
    let other = Arc::new(Mutex::default());
    let (locks, place) = (process.locks.clone(), Arc::clone(&other));
    process.store.once_polled(move || {
        let mut section: Section = Box::pin(locks.with_lock(KEY, async {}));
        assert!(poll_once(section.as_mut()).is_pending());
        *place.lock() = Some(section);
    });
    other
}

async fn both_have_it(process: &Process) -> Result<(), LockError> {
    let other = meanwhile(process);
    let waits = process.locks.lock(KEY);
    waits.run(async { yield_now().await }).await?;
    let other = other.lock().take().expect("another caller");
    other.await?;
    // Time stands still, so there is no second token: the request follows the release.
    assert_eq!(process.store.asked.load(Relaxed), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_caller_joins_while_the_reply_is_read() -> Result<(), LockError> {
    both_have_it(&Process::with_heartbeat(SECOND)).await
}

#[tokio::test(start_paused = true)]
async fn a_second_caller_joins_while_the_request_is_sent() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    process.store.is_slow.store(true, Relaxed);
    both_have_it(&process).await
}

/// A driver continues with the request.
#[tokio::test(start_paused = true)]
async fn a_caller_that_is_no_longer_polled_blocks_no_other() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    process.store.is_slow.store(true, Relaxed);
    let mut still = pin!(process.locks.with_lock(KEY, async {}));
    assert!(poll_once(still.as_mut()).is_pending());
    let began = Instant::now();
    process.locks.with_lock(KEY, async {}).await?;
    // The grant of the first caller was taken back.
    assert!(began.elapsed() <= 2 * SECOND + SECOND / 10);
    Ok(())
}

/// At first, the limit of a single caller arms no timer.
#[tokio::test(start_paused = true)]
async fn a_caller_joined_by_another_still_waits_within_its_limit() -> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND);
    process.take_elsewhere().await?;
    process.store.is_slow.store(true, Relaxed);
    let began = Instant::now();
    let first = tokio::spawn(process.locks.lock(KEY).wait(2 * SECOND).acquire());
    yield_now().await;
    let behind = process.wait();
    let timed_out = first.await.expect("a waiter that ends");
    assert!(timed_out.unwrap_err().is_busy());
    assert_eq!(began.elapsed().as_secs(), 2);
    behind.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_during_its_request_leaves_no_lock() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    process.store.is_slow.store(true, Relaxed);
    {
        let mut dropped = pin!(process.locks.with_lock(KEY, async {}));
        assert!(poll_once(dropped.as_mut()).is_pending());
    }
    let is_free = async || process.locks.lock(KEY).no_wait().acquire().await.is_ok();
    eventually(DEADLINE, "a free lock", is_free).await;
    Ok(())
}

/// The store learns nothing of it.
#[tokio::test(start_paused = true)]
async fn a_request_that_panics_does_not_block_the_lock() -> Result<(), LockError> {
    for another_comes in [false, true] {
        let process = Process::with_heartbeat(SECOND);
        let other = another_comes.then(|| meanwhile(&process));
        process.store.is_to_panic.store(true, Relaxed);
        let panics = tokio::spawn(process.locks.with_lock(KEY, async {})).await;
        assert!(panics.is_err_and(|error| error.is_panic()));
        if let Some(other) = other {
            let other = other.lock().take().expect("another caller");
            other.await?;
        }
        process.locks.with_lock(KEY, async {}).await?;
    }
    Ok(())
}
