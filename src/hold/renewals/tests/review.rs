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

/// A re-entry lengthens the lease of one key, so both are renewed to that TTL. The renewal arrives after a downgrade.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_of_several_gives_no_lease_to_one_that_was_downgraded() {
    let store = Counting::new();
    let locks = store.locks();
    let guard = locks
        .lock_all(["a", "b"])
        .ttl(3 * SECOND)
        .acquire()
        .await
        .unwrap();
    let nested = async {
        let nested = locks.lock("b").ttl(300 * SECOND).acquire().await;
        nested.unwrap().release().await.unwrap();
    };
    guard.scope(nested).await.unwrap();
    store.is_late.store(true, Relaxed);
    // It is due after a second, and executed a tenth of a second later.
    crate::base::timer::sleep(SECOND + 50 * MOMENT).await;
    let reader = guard.all().iter().find(|held| held.key() == "a").unwrap();
    reader.downgrade().await.unwrap();
    // The lease that the store has for the reader ends after 3 s. In the meantime a writer of another process has
    // waited in the line.
    let stranger = store.locks();
    let writer = stranger.lock("a").wait(20 * SECOND).acquire().await;
    assert!(
        writer.is_err() || reader.is_lost(),
        "a writer is inside, and the reader believes in {:?} more",
        reader.remaining()
    );
}

/// A renewal that was sent while the downgrade was in flight has made the hold a reader, which continues as a writer.
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_refused_leaves_no_shared_lock_to_a_writer() {
    let store = Counting::new();
    let locks = store.locks();
    let guard = locks.lock("key").acquire().await.unwrap();
    store.is_refused.store(true, Relaxed);
    crate::base::timer::sleep(TTL / 3 - 50 * MOMENT).await;
    guard.held().downgrade().await.expect_err("refused");
    assert!(!guard.held().is_shared(), "what the review is about");
    let stranger = store.locks();
    let reader = stranger.lock("key").read().no_wait().acquire().await;
    assert!(
        reader.is_err() || guard.held().is_lost(),
        "a reader is inside with the writer"
    );
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
    let shown = locks.inspect("key").await.unwrap().unwrap();
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
