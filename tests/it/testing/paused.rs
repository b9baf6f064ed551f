//! A server in memory that stands still: no answers, and what was sent is executed late.

use std::future::pending;
use std::time::Duration;

use reentry::testing::Server;
use reentry::{LockError, Locks, LostReason, StoreError};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(30);

/// Asks once, and returns what the store said, and how long that took.
async fn ask(locks: &Locks) -> (StoreError, Duration) {
    let start = Instant::now();
    match locks.lock(KEY).no_wait().await {
        Err(LockError::Store { source, .. }) => (source, start.elapsed()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_has_no_answer_and_the_next_one_no_connection() {
    let server = Server::new();
    let builder = server.builder().connect_timeout(3 * SECOND);
    let locks = builder.response_timeout(SECOND / 2).build().await.unwrap();
    server.pause();
    let (sent, after) = ask(&locks).await;
    assert!(
        sent.is_outcome_unknown() && after == SECOND / 2,
        "{after:?}"
    );
    let (unsent, after) = ask(&locks).await;
    assert!(
        !unsent.is_outcome_unknown() && after == 3 * SECOND,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_starts_meanwhile_gives_up_after_the_connect_timeout() {
    let server = Server::new();
    server.pause();
    let start = Instant::now();
    let error = server.builder().build().await.unwrap_err();
    assert!(
        matches!(error, LockError::Store { key: None, .. }),
        "{error:?}"
    );
    assert_eq!(start.elapsed(), 2 * SECOND);
    let connecting = tokio::spawn(server.builder().build());
    sleep(SECOND).await;
    server.resume();
    connecting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn who_still_waits_is_answered_when_the_server_goes_on() {
    let server = Server::new();
    let locks = server.locks();
    server.pause();
    let start = Instant::now();
    let asking = tokio::spawn(locks.lock(KEY).no_wait().acquire());
    sleep(SECOND / 2).await;
    server.resume();
    drop(asking.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), SECOND / 2);
}

/// P8: the acquire is executed when its caller has long gone.
#[tokio::test(start_paused = true)]
async fn a_late_acquire_leaves_no_lock_behind() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    server.pause();
    let (sent, _) = ask(&a).await;
    assert!(sent.is_outcome_unknown());
    sleep(10 * SECOND).await;
    server.resume();
    let info = b.inspect(KEY).await.unwrap();
    assert!(info.is_some(), "it was executed");
    let start = Instant::now();
    let guard = b.lock(KEY).await.unwrap();
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
    guard.release().await.unwrap();
    assert!(b.inspect(KEY).await.unwrap().is_none());
}

/// The caller is dropped while its request is under way.
#[tokio::test(start_paused = true)]
async fn a_late_acquire_of_a_caller_that_was_dropped_leaves_none_either() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    server.pause();
    let asking = tokio::spawn(a.lock(KEY).acquire());
    tokio::task::yield_now().await;
    asking.abort();
    sleep(10 * SECOND).await;
    server.resume();
    let start = Instant::now();
    drop(b.lock(KEY).await.unwrap());
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}

/// P13: the release has no answer, and is executed late.
#[tokio::test(start_paused = true)]
async fn a_body_that_has_finished_returns_its_output_and_the_lock_is_free_in_the_end() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let start = Instant::now();
    let body = a.with_lock(KEY, async {
        server.pause();
        "output"
    });
    assert_eq!(body.await.unwrap(), "output");
    assert_eq!(start.elapsed(), SECOND, "the response timeout");
    server.resume();
    assert!(b.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_are_executed_in_the_order_in_which_they_were_sent() {
    let server = Server::new();
    let replicas: Vec<_> = (0..5).map(|_| server.locks()).collect();
    server.pause();
    let asking = |locks: &Locks| tokio::spawn(locks.lock(KEY).acquire());
    let asking: Vec<_> = replicas.iter().map(asking).collect();
    sleep(SECOND / 2).await;
    server.resume();
    let mut last = None;
    for waiting in asking {
        let guard = waiting.await.unwrap().unwrap();
        assert!(last < Some(guard.held().fencing_token()));
        last = Some(guard.held().fencing_token());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_outlives_a_pause_that_is_shorter_than_its_lease() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let body = a.with_lock(KEY, async {
        for _ in 0..5 {
            server.pause();
            sleep(TTL / 2).await;
            server.resume();
            sleep(TTL / 2).await;
        }
        b.lock(KEY).no_wait().await.unwrap_err().is_contended()
    });
    assert!(body.await.unwrap());
}

/// P1, P5: the renewal that is executed late does not bring the lock back to its holder, nor to no holder.
#[tokio::test(start_paused = true)]
async fn a_holder_loses_its_lock_in_a_longer_one_before_the_next_one_enters() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let start = Instant::now();
    let body = a.with_lock(KEY, async {
        server.pause();
        pending::<()>().await;
    });
    let Err(LockError::Lost { reason, .. }) = body.await else {
        panic!("not lost");
    };
    assert_eq!(reason, LostReason::Unconfirmed);
    assert!(start.elapsed() < TTL);
    server.resume();
    b.with_lock(KEY, async {}).await.unwrap();
    assert!(start.elapsed() <= TTL + SECOND, "{:?}", start.elapsed());
}
