//! A server in memory that is stopped: what a service sees while Redis is down, and when it is back.

use std::future::pending;
use std::time::Duration;

use reentry::testing::Server;
use reentry::{LockError, LostReason};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(30);

/// The status of a request of a service that failed so, as in the documentation of `LockError`.
fn status(error: &LockError) -> u16 {
    match error {
        error if error.is_contended() => 409,
        error if error.is_unavailable() => 503,
        _ => 500,
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_answers_503_once_its_wait_is_over() {
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let start = Instant::now();
    let waiting = locks.lock(KEY).wait(5 * SECOND).acquire();
    assert_eq!(status(&waiting.await.unwrap_err()), 503);
    assert_eq!(start.elapsed(), 5 * SECOND);
    server.start();
    locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_refused_at_once_and_nothing_was_done() {
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let start = Instant::now();
    let refused = locks.lock(KEY).no_wait().await.unwrap_err();
    assert_eq!(status(&refused), 503);
    let LockError::Store { source, .. } = refused else {
        panic!("{refused:?}");
    };
    assert!(!source.is_outcome_unknown());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_enters_as_soon_as_the_server_is_back() {
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let waiting = tokio::spawn(locks.lock(KEY).acquire());
    sleep(20 * SECOND).await;
    server.start();
    let start = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_service_starts_before_its_server() {
    let server = Server::new();
    server.stop();
    let error = server.builder().build().await.unwrap_err();
    assert!(
        matches!(error, LockError::Store { key: None, .. }),
        "{error:?}"
    );
    let locks = server.builder().build_lazy().unwrap();
    let waiting = tokio::spawn(locks.lock(KEY).acquire());
    sleep(5 * SECOND).await;
    server.start();
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_outlives_a_restart_with_the_data() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let body = a.with_lock(KEY, async {
        for _ in 0..5 {
            server.stop();
            sleep(TTL / 2).await;
            server.start();
            sleep(TTL / 2).await;
        }
        b.lock(KEY).no_wait().await.unwrap_err().is_contended()
    });
    assert!(body.await.unwrap());
    assert!(b.lock(KEY).try_acquire().await.unwrap().is_some());
}

/// P5, P6.
#[tokio::test(start_paused = true)]
async fn a_holder_loses_its_lock_at_the_deadline_if_the_server_stays_down() {
    let server = Server::new();
    let locks = server.locks();
    let start = Instant::now();
    let body = locks.with_lock(KEY, async {
        server.stop();
        pending::<()>().await;
    });
    let Err(LockError::Lost { reason, .. }) = body.await else {
        panic!("not lost");
    };
    assert_eq!(reason, LostReason::Unconfirmed);
    let held = start.elapsed();
    // The margin is 1 %.
    assert!((TTL * 98 / 100..TTL).contains(&held), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_the_data_is_noticed_at_once() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let idle = a.lock(KEY).await.unwrap();
    server.stop();
    server.lose_data();
    server.start();
    let start = Instant::now();
    assert_eq!(idle.held().lost().await, LostReason::Gone);
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    let next = b.lock(KEY).no_wait().await.unwrap();
    assert!(next.held().fencing_token() > idle.held().fencing_token());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_at_a_paused_server_dies_with_it() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    server.pause();
    let start = Instant::now();
    let dies = tokio::spawn(a.lock(KEY).no_wait().acquire());
    tokio::task::yield_now().await;
    server.stop();
    let error = dies.await.unwrap().unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO, "its connection has ended");
    let LockError::Store { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.is_outcome_unknown(), "it cannot know");
    // A server that is stopped does not go on by itself.
    server.resume();
    assert!(b.inspect(KEY).await.unwrap_err().is_unavailable());
    server.start();
    assert!(b.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn two_replicas_find_their_order_again_after_a_restart() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let guard = a.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(b.lock(KEY).acquire());
    sleep(SECOND).await;
    server.stop();
    sleep(SECOND).await;
    server.start();
    // Its place was kept, and its inbox is open again.
    sleep(SECOND / 100).await;
    guard.release().await.unwrap();
    let start = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}
