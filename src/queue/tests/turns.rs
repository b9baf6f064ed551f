//! The turns of callers in memory, while no message arrives that another process waits.

use super::*;
use crate::store::{Inspect, QueueEntry};

/// The inbox of this process counts as open, and its messages are lost.
#[tokio::test(start_paused = true)]
async fn once_in_every_heartbeat_a_turn_goes_through_the_store() -> Result<(), LockError> {
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
        hears_contended: false,
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
