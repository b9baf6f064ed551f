//! Independent holds share a request, and each has an outcome of its own. Renewals that a lost connection has made due
//! together are spread again.

use futures_util::future::try_join_all;

use super::*;
use crate::LockGuard;
use crate::base::timer::sleep;
use crate::store::{ForceRelease, Inspect};

const NONE: [usize; 0] = [];

/// Holds that were acquired one after the other, a millisecond apart.
async fn held(locks: &Locks, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..count {
        guards.push(locks.lock(number.to_string()).acquire().await.unwrap());
        advance(MOMENT).await;
    }
    guards
}

fn lost(guards: &[LockGuard]) -> Vec<usize> {
    let lost = guards.iter().enumerate();
    let lost = lost.filter(|(_, guard)| guard.held().is_lost());
    lost.map(|(at, _)| at).collect()
}

/// Makes the store lose a hold, without notifying its holder.
fn take_away(store: &Counting, key: &str) {
    let key = LockKey::new("", key).expect("a key");
    let seen = store.store.apply(Inspect::of(&key)).expect("held").seen();
    assert_eq!(store.store.apply(ForceRelease { key, seen }).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn up_to_32_holds_share_a_renewal_request() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = held(&locks, 80).await;
    for _ in 0..5 {
        let together = store.together_within(TTL / 3).await;
        let mut counts: Vec<_> = together.iter().map(Vec::len).collect();
        counts.sort_unstable();
        assert_eq!(counts, [16, 32, 32]);
        let mut keys = together.concat();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 80);
    }
    assert_eq!(lost(&guards), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_hold_among_32_is_lost_and_the_others_are_renewed() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = held(&locks, 32).await;
    take_away(&store, "7");
    assert_eq!(lost(&guards), NONE);
    let together = store.together_within(TTL / 3 + SECOND).await;
    assert_eq!(together.len(), 1);
    assert_eq!(lost(&guards), [7]);
    sleep(10 * TTL).await;
    assert_eq!(lost(&guards), [7]);
}

/// An error that the server returns for one key does not affect any other key.
#[tokio::test(start_paused = true)]
async fn a_rejected_renewal_loses_only_its_own_hold() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = held(&locks, 32).await;
    *store.rejects.lock() = Some("7");
    let together = store.together_within(TTL / 3 + SECOND / 4).await;
    assert_eq!(together[0].len(), 32);
    let alone = &together[1..];
    assert!(alone.iter().all(|keys| keys.len() == 1), "{alone:?}");
    assert_eq!(alone.concat().len(), 32, "each of them at once");
    sleep(TTL).await;
    assert_eq!(lost(&guards), [7]);
    assert_eq!(
        guards[7].held().lost().await,
        LostReason::Expired,
        "it was asked for until then"
    );
    // The others are renewed together again.
    let together = store.together_within(TTL / 3).await;
    assert_eq!((together.len(), together.concat().len()), (1, 31));
}

/// After a lost response, the outcome of each of them is unknown: the old deadlines stay, and the request is repeated
/// for all.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_unknown_for_each_of_them() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = held(&locks, 32).await;
    store.is_silent.store(true, Relaxed);
    let together = store.together_within(2 * TTL / 3).await;
    assert!(together.len() > 3, "{}", together.len());
    assert!(together.iter().all(|keys| keys.len() == 32));
    let left = guards.iter().map(|guard| guard.held().remaining());
    assert!(left.max().is_some_and(|left| left < TTL / 3));
    assert_eq!(lost(&guards), NONE);
    store.is_silent.store(false, Relaxed);
    sleep(2 * SECOND).await;
    let left = guards.iter().map(|guard| guard.held().remaining());
    assert!(left.min().is_some_and(|left| left > TTL - 3 * SECOND));
    // Without any response each is lost at its own deadline.
    store.is_silent.store(true, Relaxed);
    sleep(TTL).await;
    assert_eq!(lost(&guards).len(), 32);
    let reasons = guards.iter().map(|guard| guard.held().lost());
    for reason in futures_util::future::join_all(reasons).await {
        assert_eq!(reason, LostReason::Expired);
    }
}

/// While the request is in flight, some of its holds end, and another caller acquires one of the locks.
#[tokio::test(start_paused = true)]
async fn holds_that_end_while_the_request_is_on_its_way_are_left_out() {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = held(&locks, 32).await;
    store.is_late.store(true, Relaxed);
    sleep(TTL / 3 - 16 * MOMENT).await;
    assert_eq!(store.together.lock().len(), 1);
    let ended = guards.split_off(16);
    try_join_all(ended.into_iter().map(LockGuard::release))
        .await
        .unwrap();
    let again = locks.lock("20").acquire().await.unwrap();
    sleep(SECOND).await;
    store.is_late.store(false, Relaxed);
    assert!(lost(&guards).is_empty() && !again.held().is_lost());
    let together = store.together_within(TTL).await;
    let keys: Vec<_> = together.concat();
    assert!(keys.contains(&"20".to_owned()) && !keys.contains(&"21".to_owned()));
    assert_eq!(lost(&guards), NONE);
}

/// Each requests its own TTL, so holds with different TTLs are renewed separately. So is a hold that is lengthened in
/// the meantime.
#[tokio::test(start_paused = true)]
async fn holds_with_different_ttls_are_renewed_separately() {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = Vec::new();
    for number in 0..60_u32 {
        let ttl = [TTL, 2 * TTL][(number % 2) as usize];
        let request = locks.lock(number.to_string()).ttl(ttl);
        guards.push(request.acquire().await.unwrap());
    }
    let together = store.together_within(TTL / 3 + SECOND).await;
    assert_eq!((together.len(), together.concat().len()), (1, 30));
    let together = store.together_within(TTL / 3).await;
    assert_eq!((together.len(), together.concat().len()), (2, 60));
    let nested = async { drop(locks.lock("0").ttl(10 * TTL).acquire().await.unwrap()) };
    guards[0].scope(nested).await.unwrap();
    store.together_within(TTL / 3).await;
    for (at, guard) in guards.iter().enumerate() {
        let longest = [TTL, 2 * TTL][at % 2];
        let longest = if at == 0 { 10 * TTL } else { longest };
        assert!(guard.held().remaining() <= longest);
    }
    assert!(guards[0].held().remaining() > 9 * TTL);
    assert_eq!(lost(&guards), NONE);
}

/// A hold whose lease lasts until the end of its `max_hold` is not renewed, not even to fill a request.
#[tokio::test(start_paused = true)]
async fn max_hold_ends_one_of_several_holds_in_a_request() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = held(&locks, 10).await;
    let request = |key, max_hold| locks.lock(key).max_hold(max_hold).acquire();
    let short = request("short", TTL).await.unwrap();
    let long = request("long", 2 * TTL).await.unwrap();
    let together = store.together_within(TTL / 3 + SECOND).await;
    let keys = together.concat();
    assert!(!keys.contains(&"short".to_owned()) && keys.contains(&"long".to_owned()));
    sleep(TTL).await;
    assert_eq!(short.held().lost().await, LostReason::MaxHold);
    assert!(!long.held().is_lost());
    sleep(TTL).await;
    assert_eq!(long.held().lost().await, LostReason::MaxHold);
    assert_eq!(lost(&guards), NONE);
}

/// The maximum number of holds that are renewed in a sixteenth of the time between two renewals, and in all of that
/// time.
async fn busiest(store: &Counting) -> (usize, usize) {
    let mut counts = Vec::new();
    for _ in 0..16 {
        counts.push(store.together_within(TTL / 48).await.concat().len());
    }
    (
        counts.iter().copied().max().unwrap_or(0),
        counts.iter().sum(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_spread_over_the_next_period() {
    let store = Counting::new();
    let locks = store.locks();
    let count = 3_200;
    let guards = (0..count).map(|number| locks.lock(number.to_string()).acquire());
    let guards = try_join_all(guards).await.expect("free locks");
    for _ in 0..3 {
        store.disconnect();
        let verified = store.together_within(TTL / 300).await.concat().len();
        assert_eq!(verified, count);
        // Each of them is renewed once more until then, at the latest, and most of them before.
        let (most, all) = busiest(&store).await;
        assert!(most <= count / 5, "{most}");
        assert!((count..2 * count).contains(&all), "{all}");
        // From then on each of them is renewed once in a period.
        for _ in 0..3 {
            let (most, all) = busiest(&store).await;
            assert!(most <= count / 5, "{most}");
            assert!(all <= count + count / 5, "{all}");
        }
    }
    assert!(guards.iter().all(|guard| !guard.held().is_lost()));
}

/// No hold waits for longer than a third of its TTL, and there is no endless series of renewals.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_earlier_than_due_and_never_later() {
    let store = Counting::new();
    let locks = store.locks();
    let guards = (0..640).map(|number| locks.lock(number.to_string()).acquire());
    let guards = try_join_all(guards).await.expect("free locks");
    store.disconnect();
    for _ in 0..600 {
        sleep(SECOND / 10).await;
        for guard in &guards {
            let left = guard.held().remaining();
            assert!(left > 2 * TTL / 3 - SECOND / 2, "{left:?}");
        }
    }
    let requests = store.together.lock().len();
    assert!(requests <= 20 * 9, "{requests} requests in six periods");
}
