//! Readers of one key are renewed together.

use super::*;
use crate::base::timer::sleep;
use crate::store::{ForceRelease, Inspect};

async fn readers(locks: &Locks, key: &str, ttls: &[Duration]) -> Vec<crate::LockGuard> {
    let mut guards = Vec::new();
    for ttl in ttls {
        let guard = locks.lock(key).read().ttl(*ttl).acquire().await;
        guards.push(guard.expect("a reader"));
        // Each would be due at a moment of its own.
        advance(MOMENT).await;
    }
    guards
}

/// A request names up to 500 of them. A store that is slow does not receive more requests the slower it is.
#[tokio::test(start_paused = true)]
async fn few_requests_renew_the_readers_of_a_key() {
    for (count, most) in [(40, 1), (1_000, 3)] {
        let store = Counting::new();
        let locks = store.locks();
        let guards = readers(&locks, "key", &vec![TTL; count]).await;
        let renewed = store.renewed_within(10 * TTL).await;
        assert!((29..=30 * most).contains(&renewed), "{renewed}");
        assert!(guards.iter().all(|guard| !guard.held().is_lost()));
        store.is_silent.store(true, Relaxed);
        let repeated = store.renewed_within(TTL / 3 + 5 * SECOND).await;
        assert!(repeated <= 50 * most, "{repeated}");
    }
}

/// Its lease lasts until the end of its `max_hold`.
#[tokio::test(start_paused = true)]
async fn a_reader_covered_by_max_hold_is_not_renewed() {
    let store = Counting::new();
    let locks = store.locks();
    let _long = locks.lock("key").read().acquire().await.expect("a reader");
    let short = locks.lock("key").read().max_hold(TTL);
    let _short = short.acquire().await.expect("a reader");
    sleep(29 * SECOND).await;
    let shown = locks.admin().inspect("key").await.expect("memory");
    let holders = shown.expect("readers").holders;
    let least = holders.iter().filter_map(|holder| holder.remaining).min();
    assert!(
        least.is_some_and(|least| least <= 2 * SECOND),
        "{holders:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn readers_of_another_key_or_ttl_are_renewed_by_themselves() {
    let store = Counting::new();
    let locks = store.locks();
    let one = readers(&locks, "one", &[30 * SECOND, 60 * SECOND, 30 * SECOND]).await;
    let other = readers(&locks, "other", &[30 * SECOND; 3]).await;
    let renewed = store.renewed_within(300 * SECOND).await;
    assert!((2 * 29 + 14..=2 * 30 + 15).contains(&renewed), "{renewed}");
    assert!(
        one.iter()
            .chain(&other)
            .all(|guard| !guard.held().is_lost())
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_left_is_not_renewed_with_the_others() {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = readers(&locks, "key", &[30 * SECOND; 4]).await;
    store.renewed_within(11 * SECOND).await;
    let left = guards.swap_remove(0);
    left.release().await.expect("released");
    let renewed = store.renewed_within(30 * SECOND).await;
    assert_eq!(renewed, 3);
    let shown = locks.admin().inspect("key").await.expect("memory");
    assert_eq!(shown.map(|info| info.holders.len()), Some(3));
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_reader_is_lost_and_the_others_are_renewed() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = readers(&locks, "key", &[30 * SECOND; 3]).await;
    let key = LockKey::new("", "key").expect("a key");
    let seen = store.store.apply(Inspect::of(&key));
    let mut seen = seen.expect("readers").seen();
    seen.fields.truncate(1);
    let forced = store.store.apply(ForceRelease { key, seen });
    assert_eq!(forced.len(), 1);
    store.renewed_within(11 * SECOND).await;
    let lost: Vec<_> = guards.iter().map(|guard| guard.held().is_lost()).collect();
    assert_eq!(lost, [true, false, false]);
}
