//! The findings of a review.

use super::*;

/// One request for 500 of them is the limit in the code: two requests for 1,000.
#[tokio::test(start_paused = true)]
async fn a_thousand_readers_of_a_key_are_renewed_by_two_requests() {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = Vec::new();
    for _ in 0..1_000 {
        guards.push(locks.lock("key").read().acquire().await.expect("a reader"));
    }
    let renewed = store.renewed_within(TTL / 2).await;
    assert!(renewed <= 2, "{renewed}");
    drop(guards);
}

/// A reader that is never renewed, because `max_hold` ends with its first lease.
#[tokio::test(start_paused = true)]
async fn a_reader_that_max_hold_covers_is_not_renewed_with_others() {
    let store = Counting::new();
    let locks = store.locks();
    let long = locks.lock("key").read().acquire().await.unwrap();
    let short = locks
        .lock("key")
        .read()
        .max_hold(TTL)
        .acquire()
        .await
        .unwrap();
    crate::base::timer::sleep(29 * SECOND).await;
    let shown = locks.admin().inspect("key").await.unwrap().unwrap();
    let remaining: Vec<_> = shown.holders.iter().map(|it| it.remaining).collect();
    let least = remaining.iter().flatten().min().copied();
    assert!(
        least.is_some_and(|least| least <= 2 * SECOND),
        "{remaining:?}"
    );
    drop((long, short));
}

/// A slow store does not receive more requests the slower it is. There are 400 readers of one key, and no response for
/// 5 s.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_is_not_asked_for_each_reader() {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = Vec::new();
    for _ in 0..400 {
        guards.push(locks.lock("key").read().acquire().await.expect("a reader"));
    }
    store.is_silent.store(true, Relaxed);
    let renewed = store.renewed_within(TTL / 3 + 5 * SECOND).await;
    assert!(renewed <= 50, "{renewed}");
    drop(guards);
}
