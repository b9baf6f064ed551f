//! A wait ends at its limit, however long the leases and the heartbeats are, and leaves the queue.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::waiters;
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
