//! A closed `Locks` accepts nothing new, and leaves nothing behind.

use std::future::{pending, ready};
use std::time::Duration;

use crate::support::sweep::poll_times;
use crate::support::told::lost;
use crate::support::{
    DEADLINE, RedisServer, Rig, connect, eventually, in_memory, until_waiting, waiters, within,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use reentry::{CloseReport, LockError, Locks, LostReason, OnLost};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet, yield_now};

/// The time for a body to finish before it is ended.
const SOON: Duration = Duration::from_millis(20);
/// The time for the store to respond if something is left.
const SHORT: Duration = Duration::from_millis(200);

in_memory!(
    a_closed_locks_accepts_no_new_request,
    bodies_finish_and_re_enter_their_locks,
    callers_that_wait_give_up,
    unpolled_callers_do_not_delay_a_close,
    a_body_that_takes_too_long_is_ended_as_by_a_loss,
    a_close_that_is_dropped_leaves_it_closed,
);

fn closing(locks: &Locks) -> JoinHandle<CloseReport> {
    let locks = locks.clone();
    tokio::spawn(async move { locks.close(Duration::MAX).await })
}

/// Waits until it accepts nothing new.
async fn until_closed(locks: &Locks) {
    let is_closed = async || locks.admin().inspect("key").await.is_err();
    eventually(DEADLINE, "it is closed", is_closed).await;
}

async fn is_clean(closing: JoinHandle<CloseReport>) {
    let report = within(DEADLINE, "nothing is left", closing).await.unwrap();
    assert!(report.is_clean(), "{report}");
}

async fn a_closed_locks_accepts_no_new_request(locks: Locks) {
    let clone = locks.clone();
    assert!(locks.close(Duration::MAX).await.is_clean());
    let refused = [
        clone.with_lock("key", async {}).await.unwrap_err(),
        clone.lock("key").no_wait().await.unwrap_err(),
        clone.lock("key").read().await.unwrap_err(),
        clone.lock_all(["key", "key"]).await.unwrap_err(),
        clone.semaphore("key", 2).run(async {}).await.unwrap_err(),
        clone.admin().inspect("key").await.unwrap_err(),
        clone.admin().force_release("key").await.unwrap_err(),
        clone.ping().await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, LockError::Closed), "{error}");
        assert!(error.is_closed() && error.key().is_none(), "{error}");
    }
}

async fn bodies_finish_and_re_enter_their_locks(locks: Locks) {
    let (go, gone) = oneshot::channel();
    let (inside, entered) = oneshot::channel();
    let body = tokio::spawn({
        let locks = locks.clone();
        async move {
            let body = async {
                inside.send(()).unwrap();
                gone.await.unwrap();
                locks.with_lock("key", async {}).await.unwrap();
                locks.with_lock("other", async {}).await.unwrap_err()
            };
            locks.with_lock("key", body).await
        }
    });
    entered.await.unwrap();
    let closing = closing(&locks);
    until_closed(&locks).await;
    assert!(!closing.is_finished());
    go.send(()).unwrap();
    let refused = within(DEADLINE, "the body ends", body).await;
    assert!(refused.unwrap().unwrap().is_closed());
    is_clean(closing).await;
}

async fn callers_that_wait_give_up(locks: Locks) {
    let holder = locks.lock("key").await.unwrap();
    let mut waiting = JoinSet::new();
    for count in 1..=3 {
        waiting.spawn(locks.with_lock("key", async {}));
        until_waiting(&locks, "key", count).await;
    }
    let closing = closing(&locks);
    while let Some(done) = within(DEADLINE, "they give up", waiting.join_next()).await {
        let error = done.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Closed), "{error}");
    }
    assert!(!closing.is_finished());
    holder.release().await.unwrap();
    is_clean(closing).await;
}

/// They are neither polled nor dropped. The last one has a lock, which is given up after two heartbeats.
async fn unpolled_callers_do_not_delay_a_close(locks: Locks) {
    let holder = locks.lock("key").await.unwrap();
    let mut left_alone: [BoxFuture<'_, Result<(), LockError>>; 4] = [
        locks.with_lock("key", async {}).boxed(),
        locks.lock("key").acquire().map_ok(drop).boxed(),
        locks.lock("key").read().run(async {}).boxed(),
        locks.lock_all(["b", "key"]).run(async {}).boxed(),
    ];
    let all_wait = async || {
        for caller in &mut left_alone {
            assert!(caller.now_or_never().is_none());
        }
        waiters(&locks, "key").await == Some(4)
    };
    eventually(DEADLINE, "they wait", all_wait).await;
    holder.release().await.unwrap();
    is_clean(closing(&locks)).await;
    for caller in left_alone {
        assert!(caller.await.unwrap_err().is_closed());
    }
}

async fn a_body_that_takes_too_long_is_ended_as_by_a_loss(locks: Locks) {
    let (inside, entered) = oneshot::channel();
    let body = tokio::spawn(locks.with_lock("key", async move {
        inside.send(()).unwrap();
        pending::<()>().await;
    }));
    entered.await.unwrap();
    let report = within(DEADLINE, "it is closed", locks.close(SOON)).await;
    assert!(report.is_clean(), "{report}");
    let ended = body.await.unwrap();
    assert!(ended.as_ref().is_err_and(LockError::is_closed));
    assert_eq!(lost(ended).1, LostReason::Closed);
}

async fn a_close_that_is_dropped_leaves_it_closed(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    {
        let closing = poll_times(1, locks.close(Duration::MAX)).await;
        assert!(closing.is_none());
    }
    assert!(locks.lock("other").await.unwrap_err().is_closed());
    guard.release().await.unwrap();
    assert!(locks.close(Duration::MAX).await.is_clean());
}

/// The ways in which a program ends while it has a lock.
const ENDINGS: [&str; 5] = [
    "a guard is dropped",
    "a task is aborted",
    "a task still holds",
    "a guard is in a task that is not awaited",
    "a nested body is dropped",
];

async fn end(locks: &Locks, ending: &str) {
    let hold = locks.with_lock("key", pending::<()>());
    match ending {
        "a guard is dropped" => drop(locks.lock("key").await.unwrap()),
        "a task is aborted" => {
            let task = tokio::spawn(hold);
            held(locks).await;
            task.abort();
        }
        "a task still holds" => {
            drop(tokio::spawn(hold));
            held(locks).await;
        }
        "a guard is in a task that is not awaited" => {
            let guard = locks.lock("key").await.unwrap();
            drop(tokio::spawn(async move {
                yield_now().await;
                drop(guard);
            }));
        }
        _ => {
            let nested = locks.with_lock("key", hold);
            tokio::select! {
                biased;
                _ = nested => {}
                () = ready(()) => {}
            }
        }
    }
}

async fn held(locks: &Locks) {
    let held = async || locks.admin().inspect("key").await.unwrap().is_some();
    eventually(DEADLINE, "the lock is held", held).await;
}

#[test]
fn a_program_that_closes_at_its_end_leaves_no_lock() {
    let ground = Builder::new_multi_thread().enable_all().build().unwrap();
    let server = ground.block_on(RedisServer::start());
    for ending in ENDINGS {
        for workers in [0, 2] {
            let mut builder = match workers {
                0 => Builder::new_current_thread(),
                _ => Builder::new_multi_thread(),
            };
            let runtime = builder.enable_all().build().unwrap();
            runtime.block_on(async {
                let locks = connect(&server).await;
                end(&locks, ending).await;
                let report = locks.close(SOON).await;
                assert!(report.is_clean(), "{ending}: {report}");
            });
            runtime.shutdown_background();
            let left = ground.block_on(server.leftovers());
            assert!(left.is_empty(), "{ending}: {left:?}");
        }
    }
}

#[tokio::test]
async fn a_close_ends_all_connections() {
    let server = RedisServer::start().await;
    let clients = async || server.ask("CLIENT LIST TYPE normal").await.lines().count();
    let subscribers = async || server.ask("CLIENT LIST TYPE pubsub").await.lines().count();
    let before = (clients().await, subscribers().await);
    let locks = connect(&server).await;
    let holder = locks.lock("key").await.unwrap();
    let waiting = tokio::spawn(locks.with_lock("key", async {}));
    // These are the one for commands, and the inbox.
    let open = async || (clients().await, subscribers().await) == (before.0 + 1, before.1 + 1);
    eventually(DEADLINE, "both are open", open).await;
    holder.release().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(locks.close(Duration::MAX).await.is_clean());
    let closed = async || (clients().await, subscribers().await) == before;
    eventually(DEADLINE, "its connections are closed", closed).await;
}

/// The request of a caller left alone is in flight, or it has a place in the queue.
#[tokio::test]
async fn a_close_removes_unpolled_callers_from_the_store() {
    let server = RedisServer::start().await;
    let [locks, other] = [connect(&server).await, connect(&server).await];
    let holder = other.lock("key").await.unwrap();
    let mut waits = Box::pin(locks.with_lock("key", async {}));
    assert!((&mut waits).now_or_never().is_none());
    let has_place = async || server.ask("EXISTS reentry:queue:{key}:key").await == "1";
    eventually(DEADLINE, "it has a place", has_place).await;
    let mut asks = Box::pin(locks.with_lock("free", async {}));
    assert!((&mut asks).now_or_never().is_none());
    is_clean(closing(&locks)).await;
    assert_eq!(server.ask("HLEN reentry:entries:{key}:key").await, "0");
    assert_eq!(server.ask("EXISTS free").await, "0");
    assert!(waits.await.unwrap_err().is_closed());
    assert!(asks.await.unwrap_err().is_closed());
    holder.release().await.unwrap();
}

#[tokio::test]
async fn a_close_reports_the_locks_that_are_still_held() {
    let rig = Rig::build(|builder| builder.response_timeout(SHORT)).await;
    let locks = &rig.locks;
    let guard = locks.lock("b").await.unwrap();
    let (inside, entered) = oneshot::channel();
    let request = locks.lock("a").on_lost(OnLost::KeepRunning);
    let body = tokio::spawn(request.run(async move {
        inside.send(()).unwrap();
        pending::<()>().await;
    }));
    entered.await.unwrap();
    let report = locks.close(SOON).await;
    assert_eq!(report.still_held(), ["a", "b"]);
    assert!(!report.is_clean());
    assert_eq!(guard.held().lost().await, LostReason::Closed);
    drop((guard, body));
}

/// A release that the store does not execute is reported, and the lease ends the lock.
#[tokio::test]
async fn a_close_ends_although_the_store_is_silent() {
    let rig = Rig::build(|builder| builder.response_timeout(SHORT)).await;
    let guard = rig.locks.lock("key").await.unwrap();
    rig.proxy.blackhole();
    drop(guard);
    let report = within(DEADLINE, "it is closed", rig.locks.close(SOON)).await;
    assert!(
        report.still_held().is_empty() && report.in_flight() > 0,
        "{report}"
    );
    let text = report.to_string();
    assert!(text.contains("in flight"), "{text}");
}
