//! Renewals that became due together are spread again.

use futures_util::future::try_join_all;

use super::*;
use crate::base::timer::sleep;

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
