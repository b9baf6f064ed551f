//! A wait ends at its limit, however long the leases and the heartbeats are, and leaves the queue.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{RedisServer, Turns, processes, unhurried, until_queued, waiters};
use reentry::__admin::Ids as _;
use reentry::{LockError, Locks};
use tokio::time::Instant;

const WAITS: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(40),
    Duration::from_millis(999),
    Duration::from_secs(1),
    Duration::from_millis(7_500),
    Duration::from_secs(120),
];

/// The maximum delay of the end of a wait.
const SLACK: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_is_over_whatever_the_lease() {
    for ttl in [50, 1_000, 30_000, 3_600_000].map(Duration::from_millis) {
        let builder = Locks::builder("memory:").ttl(ttl);
        let locks = builder.build().await.unwrap();
        let _guard = locks.lock(KEY).await.unwrap();
        for wait in WAITS {
            let start = Instant::now();
            let request = || async { locks.lock(KEY).wait(wait).await.unwrap_err() };
            // These are the first waiter, one behind it, and the state after both.
            let errors = tokio::join!(request(), request());
            let elapsed = start.elapsed();
            assert!(
                (wait..wait + SLACK).contains(&elapsed),
                "{elapsed:?} for {wait:?}"
            );
            for error in [errors.0, errors.1] {
                let LockError::Busy { waited, .. } = error else {
                    panic!("{error:?}");
                };
                assert!((wait..=elapsed).contains(&waited));
            }
            assert_eq!(waiters(&locks, KEY).await, Some(0));
        }
    }
}

/// The lock becomes free at the very end of the wait, or a moment after it.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_with_the_lease_before_it_leaves_a_free_lock() {
    let ttl = Duration::from_secs(3);
    for wait in (2_900..3_100).map(Duration::from_millis) {
        let locks = Locks::in_memory();
        let guard = locks.lock(KEY).ttl(ttl).max_hold(ttl).await.unwrap();
        let start = Instant::now();
        let entered = locks.lock(KEY).wait(wait).run(async {}).await;
        assert!(start.elapsed() <= wait + SLACK);
        if let Err(error) = entered {
            assert!(matches!(error, LockError::Busy { .. }), "{error:?}");
        }
        drop(guard);
        let again = locks.lock(KEY).wait(ttl).run(async {});
        again.await.unwrap();
        assert!(locks.admin().inspect(KEY).await.unwrap().is_none());
    }
}

/// Each of a thousand callers that wait may send a request, all at the same time.
#[tokio::test]
async fn naming_the_holder_reads_no_waiting_process() {
    let server = RedisServer::start().await;
    let [holder, first, second] = processes(&unhurried(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.come(&first, "first").await;
    let before = server.commandstats().await;
    let wait = Duration::from_millis(300);
    let error = second.lock(KEY).wait(wait).await.unwrap_err();
    let LockError::Busy {
        holder: Some(holder),
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(holder.hold_id, guard.held().hold_id().to_string());
    let calls = server.calls_since(&before).await;
    assert!(calls.contains_key("hgetall"), "{calls:?}");
    assert!(!calls.contains_key("hvals"), "{calls:?}");
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["first"]);
}
