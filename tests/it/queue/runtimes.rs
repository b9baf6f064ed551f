//! Runtimes that stand still, or end, while others that share the `Locks` wait for what they hold.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, Rig, eventually, waiters};
use reentry::{HandOff, Locks, LocksBuilder};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// It goes on by itself.
fn running() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// It stands still while no thread blocks on it.
fn still() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn in_memory(runtime: &Runtime, builder: LocksBuilder) -> Locks {
    runtime.block_on(builder.url("memory:").build()).unwrap()
}

fn until_one_waits(runtime: &Runtime, locks: &Locks) {
    let waits = async || waiters(locks, KEY).await == Some(1);
    runtime.block_on(eventually(DEADLINE, "one waits", waits));
}

/// A release is being repeated there when the runtime is left alone, or shut down.
fn a_release_is_left(shut_down: bool) {
    let (first, next) = (still(), running());
    // A connection that is begun on a runtime which then stands still is waited for twice as long.
    let options = |builder: LocksBuilder| builder.ttl(2 * SECOND).connect_timeout(4 * SECOND);
    let rig = next.block_on(Rig::build(options));
    let guard = first.block_on(rig.locks.lock(KEY).acquire()).unwrap();
    let waiting = next.spawn(rig.locks.lock(KEY).wait(DEADLINE).run(async {}));
    until_one_waits(&next, &rig.locks);
    next.block_on(async {
        rig.proxy.refuse().await;
        rig.cut().await;
    });
    let mut releasing = Box::pin(guard.release());
    let left = first.block_on(async { timeout(SECOND / 5, &mut releasing).await });
    assert!(left.is_err(), "released without a server");
    let kept = if shut_down {
        drop((releasing, first));
        None
    } else {
        Some((first, releasing))
    };
    next.block_on(rig.proxy.accept());
    let entered = next.block_on(waiting).unwrap();
    drop(kept);
    entered.unwrap();
}

#[test]
fn a_release_on_a_runtime_that_stands_still_holds_up_no_waiter_beyond_the_lease() {
    a_release_is_left(false);
}

#[test]
fn a_release_on_a_runtime_that_is_shut_down_holds_up_no_waiter_beyond_the_lease() {
    a_release_is_left(true);
}

/// Each member of a group is renewed on its own runtime.
#[test]
fn a_hold_that_is_handed_on_outlives_the_runtime_of_the_member_before() {
    for shut_down in [true, false] {
        let (first, next) = (still(), running());
        let builder = Locks::builder().ttl(2 * SECOND);
        let locks = in_memory(&next, builder.handoff(HandOff::InProcess));
        // A key of which no token is known has no groups.
        next.block_on(locks.with_lock(KEY, async {})).unwrap();
        next.block_on(async { sleep(SECOND / 100).await });
        let holder = first.block_on(locks.lock(KEY).acquire()).unwrap();
        let body = async { sleep(3 * SECOND).await };
        let second = next.spawn(locks.with_lock(KEY, body));
        until_one_waits(&next, &locks);
        first.block_on(holder.release()).unwrap();
        let kept = (!shut_down).then_some(first);
        let held = next.block_on(second).unwrap();
        drop(kept);
        assert!(held.is_ok(), "shut down: {shut_down}, {held:?}");
    }
}

/// Short waits end before a heartbeat would ask for them.
#[test]
fn a_lock_whose_holder_went_with_its_runtime_is_free_for_short_waits_too() {
    let (first, next) = (running(), running());
    let builder = Locks::builder().ttl(SECOND * 3 / 10);
    let locks = in_memory(&next, builder.heartbeat(SECOND / 10));
    let (inside, is_inside) = mpsc::channel();
    let body = async move {
        inside.send(()).unwrap();
        pending::<()>().await;
    };
    drop(first.spawn(locks.with_lock(KEY, body)));
    is_inside.recv().unwrap();
    drop(first);
    next.block_on(async {
        let is_free = async || locks.inspect(KEY).await.unwrap().is_none();
        eventually(DEADLINE, "a free lock", is_free).await;
        for _ in 0..5 {
            let short = locks.lock(KEY).wait(SECOND / 16);
            drop(short.acquire().await.unwrap());
        }
    });
}
