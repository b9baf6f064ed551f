//! The renewals of the holds of one acquisition.

use super::*;
use crate::LockGuard;
use crate::base::timer::sleep;

/// Two locks. The second one was acquired five seconds after the first.
async fn taken_one_by_one(locks: &Locks) -> LockGuard {
    let taken = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let last = taken.all().last().unwrap().key().to_owned();
    taken.release().await.unwrap();
    let other = locks.lock(last).acquire().await.unwrap();
    let (taken, ()) = tokio::join!(locks.lock_all(["a", "b"]).acquire(), async {
        sleep(5 * SECOND).await;
        other.release().await.unwrap();
    });
    taken.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_request_renews_locks_that_were_taken_together() {
    let store = Counting::new();
    let locks = store.locks();
    let guard = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let renewed = store.renewed_within(300 * SECOND).await;
    assert!((29..=30).contains(&renewed), "{renewed}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn locks_that_were_taken_one_by_one_are_renewed_one_by_one() {
    let store = Counting::new();
    let locks = store.locks();
    let guard = taken_one_by_one(&locks).await;
    let renewed = store.renewed_within(300 * SECOND).await;
    assert!((58..=60).contains(&renewed), "{renewed}");
    assert!(guard.all().iter().all(|held| !held.is_lost()));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_several_goes_on_without_one_that_has_ended() {
    let store = Counting::new();
    let locks = store.locks();
    let before = alive();
    let guard = taken_one_by_one(&locks).await;
    // It outlives the others.
    let kept = guard
        .scope(locks.lock("b").acquire())
        .await
        .unwrap()
        .unwrap();
    store.is_silent.store(true, Relaxed);
    assert!(store.renewed_within(TTL / 3).await > 0);
    guard.release().await.unwrap();
    store.is_silent.store(false, Relaxed);
    sleep(TTL).await;
    assert!(!kept.held().is_lost());
    // The end of the last one ends a renewal in flight.
    store.is_silent.store(true, Relaxed);
    assert!(store.renewed_within(TTL / 3).await > 0);
    kept.release().await.unwrap();
    assert_eq!(store.renewed_within(TTL).await, 0);
    assert_eq!(alive(), before);
}
