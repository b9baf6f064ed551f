//! Many callers of one process want one lock. An event of one of them requires no walk over the others. If each event
//! required one, these tests would take minutes.

use std::time::Duration;

use futures_util::future::join_all;

use super::*;

const MANY: usize = 10_000;

/// They join while another process has the lock, and it is released.
#[tokio::test(start_paused = true)]
async fn many_have_their_turns_in_the_order_in_which_they_came() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    let order = Arc::<Mutex<Vec<usize>>>::default();
    let turns: Vec<_> = (0..MANY)
        .map(|number| {
            let order = Arc::clone(&order);
            let request = process.locks.lock(KEY).wait(Duration::MAX);
            tokio::spawn(request.run(async move { order.lock().push(number) }))
        })
        .collect();
    sleep(SECOND).await;
    guard.release().await?;
    for turn in join_all(turns).await {
        turn.expect("a turn")?;
    }
    assert!(order.lock().iter().copied().eq(0..MANY));
    Ok(())
}

/// Each of them names the holder in its error. A few lookups serve all of them.
#[tokio::test(start_paused = true)]
async fn many_time_out_in_any_order_and_know_the_holder() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    let mut random = fastrand::Rng::with_seed(7);
    let waits = (0..MANY).map(|_| {
        let wait = SECOND + Duration::from_millis(random.u64(0..2_000));
        let request = process.locks.lock(KEY).wait(wait);
        tokio::spawn(async move { request.acquire().await.map(drop) })
    });
    for waited in join_all(waits.collect::<Vec<_>>()).await {
        let waited = waited.expect("an answer");
        let is_known =
            matches!(&waited, Err(LockError::Busy { holder: Some(it), .. }) if it.is_here);
        assert!(is_known, "{waited:?}");
    }
    guard.release().await
}
