//! Callers of one process that want one lock: their turns while no message arrives, whom a holder notices, and ten
//! thousand of them. An event of one of them requires no walk over the others. If each event required one, the tests of
//! many would take minutes.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;
use crate::store::{Inspect, QueueEntry};

/// The inbox of this process counts as open, and its messages are lost.
#[tokio::test(start_paused = true)]
async fn one_turn_per_heartbeat_goes_through_the_store() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    for _ in 0..3 {
        let locks = process.locks.clone();
        tokio::spawn(async move {
            let section = || async { sleep(SECOND / 50).await };
            while locks.with_lock(KEY, section()).await.is_ok() {}
        });
    }
    sleep(10 * SECOND).await;
    let asked = process.asks_within(10 * SECOND).await;
    assert!((5..=25).contains(&asked), "{asked}");

    let (key, hold) = (LockKey::new("", KEY)?, Owner::new().next_hold());
    let entry = QueueEntry {
        inbox: InboxId::new(),
        grant: TTL,
        life: TTL,
    };
    let request = AcquireRequest {
        hold,
        ttl: TTL,
        entry: Some(entry),
        with_others: false,
    };
    let store = &process.store.store;
    let taken = store.apply(Acquire {
        key: key.clone(),
        request,
    });
    assert!(matches!(taken, AcquireReply::Busy { .. }));
    sleep(2 * SECOND).await;
    let shown = store.apply(Inspect::of(&key)).expect("a held lock");
    assert_eq!(shown.holders[0].field, hold.to_string().as_bytes());
    Ok(())
}

/// Its inbox opens and breaks in every heartbeat.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_caller_of_its_process_asks_in_every_heartbeat() -> Result<(), LockError>
{
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    let waiter = process.wait();
    sleep(SECOND / 2).await;
    let before = process.store.asked.load(Relaxed);
    for _ in 0..20 {
        process.store.is_broken.fetch_xor(true, Relaxed);
        sleep(SECOND).await;
    }
    let asked = process.store.asked.load(Relaxed) - before;
    assert!((19..=60).contains(&asked), "{asked}");
    assert!(!waiter.is_finished());
    guard.release().await
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_does_not_count_as_contention() -> Result<(), LockError> {
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

const MANY: usize = 10_000;

/// They join while another process has the lock, and it is released.
#[tokio::test(start_paused = true)]
async fn many_waiters_enter_in_the_order_of_their_arrival() -> Result<(), LockError> {
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
async fn many_waiters_time_out_in_any_order_and_name_the_holder() -> Result<(), LockError> {
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
