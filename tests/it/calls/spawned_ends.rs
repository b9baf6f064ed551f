//! P6, P7, P13: the end of work that has left its task, and of the lock that it keeps.

#![allow(
    clippy::async_yields_async,
    reason = "a body that leaves a task behind is what these are about"
)]

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use crate::support::rig::{self, Rig};
use crate::support::runtime::runtime;
use crate::support::sweep::{Ground, KEY, on_both_grounds};
use crate::support::told::lost;
use crate::support::{DEADLINE, RedisServer, patient_at, until_free, within};
use futures_util::FutureExt as _;
use reentry::{FutureExt, Locks, LostReason, held};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{advance, sleep};

const SECOND: Duration = Duration::from_secs(1);

on_both_grounds!(
    an_aborted_child_that_is_last_releases_the_lock,
    a_panicking_child_that_is_last_releases_the_lock,
    aborted_blocking_work_releases_its_lock,
    a_child_dropped_outside_the_runtime_releases,
);

async fn an_aborted_child_that_is_last_releases_the_lock(ground: Ground) {
    let body = async { reentry::spawn(pending::<()>()) };
    let task = ground.locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(ground.depth().await, 1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    ground.settle("an aborted child").await;
}

async fn a_panicking_child_that_is_last_releases_the_lock(ground: Ground) {
    let body = async {
        reentry::spawn(async {
            yield_now().await;
            panic!("on purpose");
        })
    };
    let task = ground.locks.with_lock(KEY, body).await.unwrap();
    assert!(task.await.unwrap_err().is_panic());
    ground.settle("a panicking child").await;
}

/// Its runtime drops it at its next turn.
async fn aborted_blocking_work_releases_its_lock(ground: Ground) {
    let mut crowded = Builder::new_current_thread();
    let crowded = crowded.max_blocking_threads(1).build().unwrap();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    crowded.spawn_blocking(move || may_go_on.recv());
    let body = async {
        let _entered = crowded.enter();
        reentry::spawn_blocking(|| unreachable!("it was aborted before"))
    };
    let task = ground.locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(ground.depth().await, 1);
    task.abort();
    go_on.send(()).unwrap();
    assert!(task.await.unwrap_err().is_cancelled());
    ground.settle("blocking work that never began").await;
    crowded.shutdown_background();
}

async fn a_child_dropped_outside_the_runtime_releases(ground: Ground) {
    let body = async { pending::<()>().in_current_call() };
    let child = ground.locks.with_lock(KEY, body).await.unwrap();
    let mut child = Box::pin(child);
    assert!(child.as_mut().now_or_never().is_none());
    assert_eq!(ground.depth().await, 1);
    std::thread::spawn(move || drop(child)).join().unwrap();
    ground.settle("a drop elsewhere").await;
}

#[tokio::test]
async fn a_forced_release_ends_a_child_that_is_alone() {
    let server = RedisServer::start().await;
    let locks = patient_at(server.url()).ttl(3 * SECOND).build().await;
    let locks = locks.unwrap();
    let body = async { reentry::spawn(pending::<()>()) };
    let task = locks.with_lock("key", body).await.unwrap();
    assert!(locks.admin().force_release("key").await.unwrap());
    let ended = within(DEADLINE, "the renewal finds it gone", task).await;
    assert_eq!(lost(ended.unwrap()).0, "key");
    locks.with_lock("key", async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_child_is_told_of_the_outermost_lock_that_was_lost() {
    let locks = Locks::in_memory();
    let limited = |key, seconds| locks.lock(key).max_hold(seconds * SECOND);
    for (outer, inner, first) in [(60, 50, "inner"), (50, 60, "outer")] {
        let children = || async { [pending::<()>(), pending()].map(FutureExt::in_current_call) };
        let body = limited("inner", inner).run(children());
        let [polled, unpolled] = limited("outer", outer).run(body).await.unwrap().unwrap();
        assert_eq!(lost(polled.await).0, first);
        sleep(20 * SECOND).await;
        assert_eq!(lost(unpolled.await).0, "outer");
        until_free(&locks, "outer").await;
        until_free(&locks, "inner").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_makes_no_step_after_a_loss() {
    let locks = Locks::in_memory();
    let request = locks.lock("key").max_hold(60 * SECOND);
    let body = async { async { unreachable!("it is polled") }.in_current_call() };
    let child = request.clone().run(body).await.unwrap();
    sleep(61 * SECOND).await;
    assert_eq!(lost::<()>(child.await).1, LostReason::MaxHold);
    until_free(&locks, "key").await;
    // The lock is lost in the poll in which this one ends.
    let child = poll_fn(|cx| {
        let _ = pin!(advance(61 * SECOND)).poll(cx);
        Poll::Ready("too late")
    });
    let body = async { child.in_current_call() };
    let child = request.run(body).await.unwrap();
    assert_eq!(lost(child.await).1, LostReason::MaxHold);
    until_free(&locks, "key").await;
}

#[tokio::test(start_paused = true)]
async fn blocking_work_runs_to_its_end_and_is_told_of_the_loss() {
    let locks = Locks::in_memory();
    let (lost_now, is_lost) = mpsc::channel::<()>();
    let (begun, has_begun) = oneshot::channel();
    let (done, was_done) = oneshot::channel();
    let work = move || {
        begun.send(()).unwrap();
        is_lost.recv().unwrap();
        done.send(held("key").unwrap().is_lost()).unwrap();
    };
    let request = locks.lock("key").max_hold(60 * SECOND);
    let body = async { (reentry::spawn_blocking(work), held("key").unwrap()) };
    let (task, held) = request.run(body).await.unwrap();
    has_begun.await.unwrap();
    // Time does not advance by itself while blocking work runs.
    advance(61 * SECOND).await;
    assert_eq!(held.lost().await, LostReason::MaxHold);
    lost_now.send(()).unwrap();
    assert!(was_done.await.unwrap());
    assert_eq!(lost(task.await.unwrap()).1, LostReason::MaxHold);
    until_free(&locks, "key").await;
}

#[tokio::test]
async fn a_loss_found_by_the_release_of_a_child_comes_after_its_output() {
    let rig = Rig::start().await;
    let body = async { async { "output" }.in_current_call() };
    let child = rig.locks.with_lock(rig::KEY, body).await.unwrap();
    assert_eq!(rig.server.ask(&format!("DEL {}", rig::KEY)).await, "1");
    assert_eq!(child.await.unwrap(), "output");
}

#[test]
fn a_child_on_another_runtime_keeps_the_lock_and_releases_it() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    for url in [server.url(), "memory:".to_owned()] {
        let (first, mut next) = (runtime(), Builder::new_multi_thread());
        let next = next.worker_threads(1).enable_all().build().unwrap();
        let locks = next.block_on(patient_at(url).build()).unwrap();
        let nested = locks.clone();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let child = async move {
            may_go_on.await.unwrap();
            let depth = async { held("key").unwrap().depth() };
            nested
                .with_lock("key", nested.with_lock("key", depth))
                .await
        };
        let body = async { next.spawn(child.in_current_call()) };
        let task = first.block_on(locks.with_lock("key", body)).unwrap();
        let task = pin!(task);
        // The runtime of the hold has gone. So the hold is no longer renewed, and the child releases it here.
        drop(first);
        next.block_on(async {
            assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
            go_on.send(()).unwrap();
            let ended = within(DEADLINE, "the child ends", task).await;
            assert_eq!(ended.unwrap().unwrap().unwrap().unwrap(), 2);
            until_free(&locks, "key").await;
        });
    }
}
