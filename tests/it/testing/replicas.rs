//! Several `Locks` on one server in memory: what the replicas of a service are to each other.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use crate::support::{Section, waiters};
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
    assert!(body.await.unwrap().unwrap_err().is_contended());
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
            .heartbeat(60 * SECOND)
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
async fn replicas_see_each_other_in_an_inspection() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let guard = a.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(b.lock(KEY).acquire());
    sleep(SECOND).await;
    let info = b.inspect(KEY).await.unwrap().unwrap();
    assert_eq!(info.holders[0].owner, Some(guard.held().owner()));
    assert_eq!((info.waiters, info.waiting_processes), (1, 1));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_between_replicas_is_found() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let both = async |locks: &Locks, first: &str, second: &str| {
        let outer = locks.with_lock(first, async {
            sleep(SECOND / 10).await;
            locks.with_lock(second, async {}).await
        });
        outer.await.unwrap()
    };
    let (one, other) = join!(both(&a, "x", "y"), both(&b, "y", "x"));
    let gave_way = [one, other].into_iter().filter_map(Result::err);
    let gave_way: Vec<_> = gave_way.collect();
    assert!(
        matches!(&gave_way[..], [error] if error.is_deadlock()),
        "{gave_way:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_replica_has_its_own_options() {
    let server = Server::new();
    let a = server.builder().prefix("a:").build().await.unwrap();
    let b = server
        .builder()
        .prefix("b:")
        .ttl(7 * SECOND)
        .build()
        .await
        .unwrap();
    let _a = a.lock(KEY).await.unwrap();
    let _b = b.lock(KEY).no_wait().await.expect("another key");
    let shown = server.locks().inspect("b:order:42").await.unwrap().unwrap();
    assert_eq!(shown.remaining, Some(7 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_server_in_memory_excludes_a_url_beside_it() {
    let builder = Server::new().builder().url("redis://localhost");
    let error = builder.build().await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("a server in memory"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn servers_are_apart() {
    let (one, other) = (Server::default(), Server::default());
    let _one = one.locks().lock(KEY).await.unwrap();
    let _other = other.locks().lock(KEY).no_wait().await.unwrap();
    assert_eq!(format!("{one:?}"), "Server { condition: Running, .. }");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_closed_hands_over_and_takes_nothing_more() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let body = tokio::spawn(a.with_lock(KEY, pending::<()>()));
    tokio::task::yield_now().await;
    let waiting = tokio::spawn(b.lock(KEY).acquire());
    let report = a.close_within(3 * SECOND).await;
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

/// What a real one would leave: a lock that nobody releases, until its lease ends.
#[tokio::test(start_paused = true)]
async fn a_replica_that_closes_while_it_is_cut_off_says_what_is_left() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let guard = a.lock(KEY).await.unwrap();
    server.partition(&a);
    drop(guard);
    let report = a.close_within(SECOND).await;
    assert_eq!(report.in_flight(), 1, "{report}");
    server.heal(&a);
    // The release that is still tried finds the store closed.
    sleep(SECOND).await;
    assert!(b.lock(KEY).no_wait().await.unwrap_err().is_contended());
    drop(b.lock(KEY).await.expect("the lease has ended"));
}

/// The whole chain says where it failed, and names no host: there is none.
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
        let LockError::Timeout { holder, .. } = &late else {
            panic!("{late}");
        };
        let held_by = holder.as_ref().unwrap();
        assert_eq!(held_by.hold_id, guard.held().hold_id().to_string());
        assert_eq!(held_by.owner, Some(guard.held().owner()));
        assert!(!held_by.is_here && held_by.others == 0);
        let text = late.to_string();
        assert!(text.contains(": held by "), "{text}");
    }
}

/// Where the store does not answer nothing is known of a holder.
#[tokio::test(start_paused = true)]
async fn a_timeout_without_the_store_names_nobody() {
    let server = Server::new();
    let (holder, waiting) = (server.locks(), server.locks());
    let _guard = holder.lock(KEY).await.unwrap();
    server.pause();
    let late = waiting.lock(KEY).wait(10 * SECOND).await.unwrap_err();
    assert!(late.is_unavailable());
    assert!(matches!(late, LockError::Timeout { holder: None, .. }));
}

/// A message goes to all of them, and not to the one that is cut off.
#[tokio::test(start_paused = true)]
async fn a_forced_release_ends_the_bodies_of_all_replicas() {
    let server = Server::new();
    let replicas = [server.locks(), server.locks(), server.locks()];
    let start = Instant::now();
    let readers = replicas.clone().map(|locks| {
        let reader = locks.lock(KEY).shared();
        tokio::spawn(async move { reader.run(pending::<()>()).await })
    });
    while server
        .locks()
        .inspect(KEY)
        .await
        .unwrap()
        .is_none_or(|info| info.holders.len() < 3)
    {
        tokio::task::yield_now().await;
    }
    server.partition(&replicas[2]);
    assert!(server.locks().force_release(KEY).await.unwrap());
    let mut ended = Vec::new();
    for reader in readers {
        let lost = reader.await.unwrap().unwrap_err();
        assert!(lost.is_lost(), "{lost}");
        ended.push(start.elapsed());
    }
    assert_eq!(ended[..2], [Duration::ZERO; 2]);
    // Its deadline.
    assert!(ended[2] >= 29 * SECOND, "{ended:?}");
}
