//! A server in memory that is unavailable. These cases extend `leases::outage` by what no real server does on command.

use std::time::Duration;

use reentry::testing::Server;
use reentry::{LockError, Locks};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn a_service_starts_before_its_server() {
    for (away, back, after) in [
        (
            Server::stop as fn(&_),
            Server::start as fn(&_),
            Duration::ZERO,
        ),
        // This is the connect timeout.
        (Server::pause, Server::resume, 2 * SECOND),
    ] {
        let server = Server::new();
        away(&server);
        let start = Instant::now();
        let error = server.builder().build().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        assert_eq!(start.elapsed(), after);
        let locks = server.builder().outage(Duration::MAX);
        let locks = locks.build_lazy().unwrap();
        let once = locks.lock(KEY).no_wait().await.unwrap_err();
        assert!(once.is_unavailable() && !once.is_busy(), "{once:?}");
        let waiting = tokio::spawn(locks.lock(KEY).acquire());
        sleep(20 * SECOND).await;
        back(&server);
        let start = Instant::now();
        drop(waiting.await.unwrap().unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
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

/// A request to a server that is cut off is not executed. A request that was sent before is, and its response is lost.
#[tokio::test(start_paused = true)]
async fn a_request_sent_before_a_partition_is_executed() {
    for sent_before in [false, true] {
        let server = Server::new();
        let (a, b) = (server.locks(), server.locks());
        server.pause();
        if !sent_before {
            server.partition(&a);
        }
        let start = Instant::now();
        let asking = tokio::spawn(a.lock(KEY).no_wait().acquire());
        tokio::task::yield_now().await;
        server.partition(&a);
        server.resume();
        let error = asking.await.unwrap().unwrap_err();
        let LockError::Unavailable { source, .. } = error else {
            panic!("{error:?}");
        };
        assert!(source.is_outcome_unknown(), "it cannot know");
        assert_eq!(start.elapsed(), SECOND, "the response timeout");
        assert_eq!(b.admin().inspect(KEY).await.unwrap().is_some(), sent_before);
        server.heal(&a);
        drop(b.lock(KEY).wait(2 * SECOND).await.expect("it was released"));
    }
}

#[test]
#[should_panic = "this `Locks` does not belong to this server"]
fn another_servers_locks_cannot_be_cut_off() {
    Server::new().partition(&Server::new().locks());
}

/// Callers may wait behind each other for a minute, and notice an outage after five seconds.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_a_wait_that_would_last_longer() {
    let server = Server::new();
    let build = async || server.builder().build().await.unwrap();
    let (holder, locks) = (build().await, build().await);
    let guard = holder.lock(KEY).await.unwrap();
    let waiting = |locks: &Locks| {
        let request = locks.lock(KEY).wait(300 * SECOND);
        let start = Instant::now();
        tokio::spawn(async move { (request.await.map(drop), start.elapsed()) })
    };
    // The store responds, however long the lock is held.
    let behind = waiting(&locks);
    sleep(60 * SECOND).await;
    assert!(!behind.is_finished());
    guard.release().await.unwrap();
    behind.await.unwrap().0.unwrap();

    let guard = holder.lock(KEY).await.unwrap();
    // One is in the process of the holder, and one in another process.
    let waiters = [waiting(&locks), waiting(&holder)];
    sleep(20 * SECOND).await;
    server.pause();
    let paused = Instant::now();
    for waiter in waiters {
        let (entered, _) = waiter.await.unwrap();
        let error = entered.unwrap_err();
        assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
        let passed = paused.elapsed();
        // The last response was up to a heartbeat before.
        assert!(passed >= 4 * SECOND && passed <= 5 * SECOND, "{passed:?}");
    }
    // This caller joins during the outage.
    let (entered, waited) = waiting(&locks).await.unwrap();
    assert!(entered.unwrap_err().is_unavailable());
    assert_eq!(waited, 5 * SECOND);
    assert!(!guard.held().is_lost(), "a hold lasts as long as its lease");
    server.resume();
}

#[tokio::test]
async fn an_outage_is_longer_than_a_waiter_is_silent() {
    let builder = Server::new().builder().outage(2 * SECOND - SECOND / 10);
    let built = builder.build().await;
    assert!(matches!(built, Err(LockError::Misuse { .. })), "{built:?}");
    let builder = Server::new().builder().outage(2 * SECOND);
    assert!(builder.build().await.is_ok());
}
