//! A `Locks` that is closed while the server is unavailable, or after it has lost its data.

use std::time::Duration;

use reentry::testing::Server;
use reentry::{LostReason, OnLost};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

/// Nothing remains to be released.
#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_guard_that_lost_its_lock() {
    for nested in [false, true] {
        let server = Server::new();
        let locks = server.locks();
        let guard = locks.lock(KEY).await.unwrap();
        let inner = match nested {
            true => Some(guard.scope(locks.lock(KEY).acquire()).await.unwrap()),
            false => None,
        };
        let closing = tokio::spawn({
            let locks = locks.clone();
            async move { locks.close(Duration::MAX).await }
        });
        sleep(10 * SECOND).await;
        assert!(!closing.is_finished(), "the lock is held");
        server.lose_data();
        assert_eq!(guard.held().lost().await, LostReason::Deleted);
        let begun = Instant::now();
        let report = closing.await.unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
        drop((guard, inner));
    }
}

/// The body may be about to write its result.
#[tokio::test(start_paused = true)]
async fn close_waits_for_a_body_that_continues_after_a_loss() {
    let server = Server::new();
    let locks = server.locks();
    let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
    let body = tokio::spawn(request.run(sleep(60 * SECOND)));
    yield_now().await;
    server.lose_data();
    assert!(locks.close(Duration::MAX).await.is_clean());
    assert!(body.is_finished());
}
