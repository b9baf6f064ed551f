//! Several `Locks` on one server in memory, which behave like the replicas of a service.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use crate::support::{Section, waiters};
use reentry::__admin::Ids as _;
use reentry::testing::Server;
use reentry::{LockError, Locks, LostReason};
use tokio::join;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn replicas_exclude_each_other_and_do_not_re_enter() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.clone().locks());
    let body = a.with_lock(KEY, async { b.lock(KEY).no_wait().await });
    assert!(body.await.unwrap().unwrap_err().is_busy());
    let section = Section::default();
    let visits = async |locks: &Locks| {
        for _ in 0..100 {
            locks.with_lock(KEY, section.visit()).await.unwrap();
        }
    };
    join!(visits(&a), visits(&b), visits(&b));
    assert_eq!(section.visits(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_lock_goes_to_the_other_replica_by_message_and_not_at_a_heartbeat() {
    let server = Server::new();
    let replica = || {
        server
            .builder()
            .__heartbeat(60 * SECOND)
            .build_lazy()
            .unwrap()
    };
    let (a, b) = (replica(), replica());
    let start = Instant::now();
    let mut guard = a.lock(KEY).await.unwrap();
    for turn in 0..100 {
        let next = [&b, &a][turn % 2];
        let waiting = tokio::spawn(next.lock(KEY).acquire());
        while waiters(next, KEY).await != Some(1) {
            tokio::task::yield_now().await;
        }
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn servers_are_apart_and_each_replica_has_its_own_options() {
    let (server, other) = (Server::new(), Server::default());
    let _a = server.locks().lock(KEY).await.unwrap();
    let _other = other.locks().lock(KEY).no_wait().await.unwrap();
    let b = server.builder().prefix("b:").ttl(7 * SECOND);
    let _b = b.build_lazy().unwrap().lock(KEY).no_wait().await.unwrap();
    let shown = server.locks().inspect("b:order:42").await.unwrap().unwrap();
    assert_eq!(shown.remaining, Some(7 * SECOND));
    let shown = format!("{server:?}");
    assert_eq!(shown, "Server { condition: Running, .. }");
    let refused = server.builder().login("app", "secret").build_lazy();
    let error = refused.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    assert!(error.to_string().contains("login"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_closed_hands_over_and_takes_nothing_more() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let body = tokio::spawn(a.with_lock(KEY, pending::<()>()));
    tokio::task::yield_now().await;
    let waiting = tokio::spawn(b.lock(KEY).acquire());
    let report = a.close(3 * SECOND).await;
    assert!(report.is_clean(), "{report}");
    let closed = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(closed.elapsed(), Duration::ZERO);
    let Err(LockError::Lost { reason, .. }) = body.await.unwrap() else {
        panic!("the body came to its end");
    };
    assert_eq!(reason, LostReason::Closed);
    assert!(a.lock(KEY).await.unwrap_err().is_closed());
}

/// This is what a real process would leave: a lock that is not released until its lease expires.
#[tokio::test(start_paused = true)]
async fn a_replica_that_closes_while_it_is_cut_off_says_what_is_left() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let guard = a.lock(KEY).await.unwrap();
    server.partition(&a);
    drop(guard);
    let report = a.close(SECOND).await;
    assert_eq!(report.in_flight(), 1, "{report}");
    server.heal(&a);
    // The release that is still tried finds that the store is closed.
    sleep(SECOND).await;
    assert!(b.lock(KEY).no_wait().await.unwrap_err().is_busy());
    drop(b.lock(KEY).await.expect("the lease has ended"));
}

/// The whole chain names the step that failed, and no host, because there is none.
#[tokio::test(start_paused = true)]
async fn an_error_names_the_step_and_its_cause() {
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let error = locks.inspect(KEY).await.unwrap_err();
    let source = error.source().unwrap();
    assert_eq!(source.to_string(), "connect failed at the server in memory");
    assert_eq!(source.source().unwrap().to_string(), "connection refused");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_names_the_holder_of_another_replica() {
    let server = Server::new();
    let (holder, waiting) = (server.locks(), server.locks());
    let guard = holder.lock(KEY).await.unwrap();
    sleep(3 * SECOND).await;
    for wait in [SECOND / 10, SECOND, 10 * SECOND] {
        let late = waiting.lock(KEY).wait(wait).await.unwrap_err();
        let LockError::Busy { holder, others, .. } = &late else {
            panic!("{late}");
        };
        let holder = holder.as_ref().unwrap();
        assert_eq!(holder.hold_id, guard.held().hold_id().to_string());
        assert_eq!(holder.owner, Some(guard.held().owner().to_string()));
        assert!(!holder.is_here && *others == 0);
        let text = late.to_string();
        assert!(text.starts_with("`order:42` is held by "), "{text}");
    }
}

/// If the store does not respond, nothing is known about a holder.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_during_an_outage_is_no_timeout() {
    let server = Server::new();
    let (holder, waiting) = (server.locks(), server.locks());
    let _guard = holder.lock(KEY).await.unwrap();
    server.pause();
    let late = waiting.lock(KEY).wait(10 * SECOND).await.unwrap_err();
    assert!(matches!(late, LockError::Unavailable { .. }), "{late:?}");
}
