//! P5, P6: `max_hold` limits a hold. If it equals the TTL, it gives the plain fixed lease.

use std::time::Duration;

use crate::support::told::lost;
use reentry::{Locks, LostReason};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_body_that_outlives_max_hold_is_dropped() {
    let locks = Locks::in_memory();
    for (ttl, max_hold) in [(30, 45), (30, 300), (3, 100), (30, 30), (30, 10), (30, 1)] {
        let (ttl, max_hold) = (ttl * SECOND, max_hold * SECOND);
        let start = Instant::now();
        let request = locks.lock("key").ttl(ttl).max_hold(max_hold);
        let result = request.run(std::future::pending::<()>()).await;
        assert_eq!(lost(result).1, LostReason::MaxHold, "{ttl:?} {max_hold:?}");
        let held = start.elapsed();
        assert!(
            held <= max_hold + SECOND / 100 && held > max_hold * 98 / 100,
            "{held:?}"
        );
        // The exit has released it, although its lease may last longer.
        assert!(locks.admin().inspect("key").await.unwrap().is_none());
    }
}

/// A fixed lease: the next caller gets the lock when the TTL is over, even if this process dies.
#[tokio::test(start_paused = true)]
async fn max_hold_equal_to_the_ttl_is_never_renewed() {
    let locks = Locks::in_memory();
    let ttl = 30 * SECOND;
    let start = Instant::now();
    let guard = locks.lock("key").ttl(ttl).max_hold(ttl).await.unwrap();
    let left = async || {
        let info = locks.admin().inspect("key").await.unwrap().unwrap();
        info.remaining.unwrap()
    };
    for _ in 0..29 {
        sleep(SECOND).await;
        assert_eq!(left().await, ttl - start.elapsed());
    }
    assert_eq!(guard.held().lost().await, LostReason::MaxHold);
    assert!(start.elapsed() < ttl);
    let next = locks.lock("key").await.unwrap();
    assert!((ttl..ttl + SECOND / 100).contains(&start.elapsed()));
    assert_eq!(lost(guard.release().await).1, LostReason::MaxHold);
    assert_eq!(crate::support::depths(&locks, "key").await, [1]);
    next.release().await.unwrap();
}

/// The outermost acquisition decides, even against a longer TTL of a nested one.
#[tokio::test(start_paused = true)]
async fn a_reentry_does_not_change_max_hold() {
    let locks = Locks::in_memory();
    let start = Instant::now();
    let body = async {
        let inner = locks.lock("key").ttl(300 * SECOND).max_hold(300 * SECOND);
        inner.run(std::future::pending::<()>()).await
    };
    let request = locks.lock("key").ttl(3 * SECOND).max_hold(10 * SECOND);
    assert_eq!(lost(request.run(body).await).1, LostReason::MaxHold);
    assert!(start.elapsed() <= 10 * SECOND + SECOND / 100);

    let start = Instant::now();
    let body = async {
        let inner = locks.lock("key").ttl(3 * SECOND).max_hold(SECOND);
        inner.run(sleep(100 * SECOND)).await
    };
    locks.with_lock("key", body).await.unwrap().unwrap();
    assert!(start.elapsed() >= 100 * SECOND);
}
