//! P14: users' tests on the in-memory store control the end of a lease with a paused clock.

use std::time::Duration;

use crate::support::told::lost;
use reentry::{Locks, LostReason};
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The unit in which a timer of tokio is exact.
const TICK: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_lease_ends_exactly_when_it_should() {
    let locks = Locks::in_memory();
    let start = Instant::now();
    // It is not renewed, so the holder is like a dead one.
    let _dead = locks
        .lock("key")
        .ttl(10 * SECOND)
        .max_hold(10 * SECOND)
        .await
        .unwrap();
    advance(10 * SECOND - TICK).await;
    let info = locks.admin().inspect("key").await.unwrap().unwrap();
    assert_eq!(info.remaining, Some(TICK));
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    advance(TICK).await;
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
    assert!(locks.lock("key").try_acquire().await.unwrap().is_some());
    assert_eq!(start.elapsed(), 10 * SECOND);
}

/// A jump of the clock is like a process that was stopped: the body does not continue.
#[tokio::test(start_paused = true)]
async fn a_jump_beyond_the_lease_ends_the_body_before_it_runs_on() {
    let locks = Locks::in_memory();
    let body = async {
        advance(HOUR).await;
        unreachable!("ran on after its lease had ended");
    };
    let (_, reason) = lost::<()>(locks.with_lock("key", body).await);
    assert!(matches!(reason, LostReason::Expired | LostReason::Deleted));
}
