//! P7, P8: dropping a future of this crate after any poll leaves no lock, no watchdog, no place in a queue and no
//! waiter asleep. This is also true while its request is lost, cut off or executed twice. The polls are those of real
//! wake-ups. `sweep` of the simulation has more futures, neighbours and faults.

use crate::support::rig::FAULTS;
use crate::support::runtime::runtime;
use crate::support::sweep::{Ground, KEY, poll_times, released_at};
use crate::support::{Action, DEADLINE, eventually};
use reentry::{LockGuard, Locks};
use std::thread;
use tokio::task::yield_now;

/// Runs without a fault and with each of them, each on a thread and a server of its own: the rounds wait most of the
/// time, and a ground counts the tasks of its runtime.
fn on_each_ground(case: impl AsyncFn(&Ground) + Sync) {
    let on = async |fault: Option<Action>| {
        let ground = match fault {
            None => Ground::on_redis().await,
            Some(fault) => Ground::on_bad_network(fault).await,
        };
        case(&ground).await;
    };
    thread::scope(|scope| {
        for fault in FAULTS.map(Some).into_iter().chain([None]) {
            let on = &on;
            scope.spawn(move || runtime().block_on(on(fault)));
        }
    });
}

/// The lock is held when a future begins, and is released at this poll of it. By then it has sent its request, or has
/// learned that it must wait.
async fn sweep_waiting<F: Future>(ground: &Ground, moment: usize, make: impl Fn(Locks) -> F) {
    let waiter = |holder: LockGuard| released_at(moment, holder, make(ground.locks.clone()));
    assert!(ground.sweep_held(waiter).await >= 2);
}

/// The simulation has these futures with each fault.
fn without_a_fault<F: Future>(make: impl Fn(Locks) -> F + Sync) {
    let free = async || {
        let ground = Ground::on_redis().await;
        assert!(ground.sweep(|| make(ground.locks.clone())).await >= 2);
    };
    let held = async || sweep_waiting(&Ground::on_redis().await, 2, &make).await;
    thread::scope(|scope| {
        scope.spawn(|| runtime().block_on(free()));
        scope.spawn(|| runtime().block_on(held()));
    });
}

async fn body() {
    yield_now().await;
    yield_now().await;
}

async fn section(locks: Locks) {
    drop(locks.with_lock(KEY, body()).await);
}

async fn nested(locks: Locks) {
    drop(locks.with_lock(KEY, section(locks.clone())).await);
}

async fn guard(locks: Locks) {
    if let Ok(guard) = locks.lock(KEY).await {
        drop(guard.scope(section(locks)).await);
        drop(guard.release().await);
    }
}

/// The task continues after its parent was dropped, and releases the lock.
async fn spawned(locks: Locks) {
    let body = async { drop(reentry::spawn(section(locks.clone())).await) };
    drop(locks.with_lock(KEY, body).await);
}

async fn readers(locks: Locks) {
    let read = || locks.lock(KEY).read().run(body());
    drop(tokio::join!(read(), read(), section(locks.clone())));
}

/// One key before that of the test and one after it, in the order in which they are acquired.
async fn several(locks: Locks) {
    drop(locks.lock_all([KEY, "ahead", "behind"]).run(body()).await);
}

#[test]
fn waiting_may_be_dropped_after_any_poll() {
    on_each_ground(async |ground| sweep_waiting(ground, 1, section).await);
    runtime().block_on(async { sweep_waiting(&Ground::on_redis().await, 2, section).await });
}

/// None of the futures fails unless its request does. Its result in that case is ignored.
#[test]
fn nested_bodies_may_be_dropped_after_any_poll() {
    on_each_ground(async |ground| {
        assert!(ground.sweep(|| nested(ground.locks.clone())).await >= 2);
    });
}

#[test]
fn a_guard_may_be_dropped_after_any_poll_of_its_life() {
    without_a_fault(guard);
}

#[test]
fn a_body_that_spawns_may_be_dropped_after_any_poll() {
    without_a_fault(spawned);
}

#[test]
fn readers_may_be_dropped_after_any_poll() {
    without_a_fault(readers);
}

#[test]
fn several_may_be_dropped_after_any_poll() {
    without_a_fault(several);
}

#[tokio::test]
async fn an_inner_body_may_be_dropped_after_any_poll_and_the_outer_goes_on() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    for polls in 1.. {
        let outer = locks.with_lock(KEY, async {
            let completed = poll_times(polls, nested(locks.clone())).await.is_some();
            let right = async || ground.depth().await == 1;
            eventually(DEADLINE, "the depth is that of the outer body", right).await;
            // The unfinished work does not disturb the next one.
            let again = locks.with_lock(KEY, async {
                let counts = async || ground.depth().await == 2;
                eventually(DEADLINE, "the next one counts", counts).await;
            });
            again.await.unwrap();
            completed
        });
        let completed = outer.await.unwrap();
        ground.settle(&format!("inner poll {polls}")).await;
        if completed {
            break;
        }
    }
}
