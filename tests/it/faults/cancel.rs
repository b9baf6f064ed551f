//! P7, P8: dropping a future of this crate after any poll leaves no lock, no watchdog, no place in a queue and no
//! waiter asleep. This is also true while its request is lost, cut off or executed twice. The polls are those of real
//! wake-ups. `sweep` of the simulation has more futures, neighbours and faults.

use crate::support::Action;
use crate::support::rig::FAULTS;
use crate::support::runtime::runtime;
use crate::support::sweep::{Ground, KEY, released_at};
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
