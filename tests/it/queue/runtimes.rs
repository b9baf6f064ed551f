//! P7 across runtimes that share a `Locks`: runtimes that are stalled, or end, do not delay others.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::sweep::poll_times;
use crate::support::{DEADLINE, Rig, eventually, waiters, within};
use reentry::{Locks, LocksBuilder};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A runtime that runs by itself.
fn running() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// A runtime that is stalled while no thread blocks on it.
fn still() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn in_memory(runtime: &Runtime, builder: LocksBuilder) -> Locks {
    runtime.block_on(builder.build()).unwrap()
}

fn until_waiting(runtime: &Runtime, locks: &Locks, count: usize) {
    let wait = async || waiters(locks, KEY).await == Some(count);
    runtime.block_on(eventually(DEADLINE, "they wait", wait));
}

/// A release is being repeated on a runtime when that is stalled, or shut down.
#[test]
fn a_release_on_a_runtime_that_is_left_holds_up_no_waiter_beyond_the_lease() {
    for shut_down in [false, true] {
        let (first, next) = (still(), running());
        // If a connection is begun on a runtime that stalls, others wait for it twice as long.
        let options = |builder: LocksBuilder| builder.ttl(2 * SECOND).connect_timeout(4 * SECOND);
        let rig = next.block_on(Rig::build(options));
        let guard = first.block_on(rig.locks.lock(KEY).acquire()).unwrap();
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
        let waiting = next.spawn(rig.locks.lock(KEY).wait(DEADLINE).run(async {}));
        next.block_on(rig.proxy.accept());
        let entered = next.block_on(waiting).unwrap();
        drop(kept);
        entered.unwrap();
    }
}

/// Each member of a group is renewed on its own runtime.
#[test]
fn a_hold_that_is_handed_off_outlives_the_runtime_of_the_member_before() {
    for shut_down in [true, false] {
        let (first, next) = (still(), running());
        let builder = Locks::builder("memory:").ttl(2 * SECOND);
        let locks = in_memory(&next, builder);
        // A key without a known token has no groups.
        next.block_on(locks.with_lock(KEY, async {})).unwrap();
        next.block_on(async { sleep(SECOND / 100).await });
        let holder = first.block_on(locks.lock(KEY).acquire()).unwrap();
        let body = async { sleep(3 * SECOND).await };
        let second = next.spawn(locks.with_lock(KEY, body));
        until_waiting(&next, &locks, 1);
        first.block_on(holder.release()).unwrap();
        let kept = (!shut_down).then_some(first);
        let held = next.block_on(second).unwrap();
        drop(kept);
        assert!(held.is_ok(), "shut down: {shut_down}, {held:?}");
    }
}

#[test]
fn a_waiter_gets_in_although_the_driver_of_its_queue_stands_still() {
    let (still, running) = (still(), running());
    let locks = Locks::in_memory();
    let holder = running.block_on(locks.lock(KEY).acquire()).unwrap();
    let mut first = Box::pin(locks.with_lock(KEY, async {}));
    assert!(still.block_on(poll_times(1, &mut first)).is_none());
    let queued = locks.clone();
    let second = running.spawn(async move { queued.lock(KEY).wait(Duration::MAX).acquire().await });
    until_waiting(&running, &locks, 2);
    running.block_on(async {
        // It gives up, and its runtime is not driven again.
        drop(first);
        holder.release().await.unwrap();
        let entered = within(DEADLINE, "the second enters", second).await;
        drop(entered.unwrap().unwrap());
    });
    drop(still);
}

#[test]
fn a_waiting_future_goes_on_in_another_runtime() {
    let (first, next) = (still(), running());
    let locks = Locks::in_memory();
    let holder = next.block_on(locks.lock(KEY).acquire()).unwrap();
    let mut moved = Box::pin(locks.lock(KEY).wait(Duration::MAX).acquire());
    assert!(first.block_on(poll_times(1, &mut moved)).is_none());
    drop(first);
    next.block_on(async {
        let moved = tokio::spawn(moved);
        holder.release().await.unwrap();
        let entered = within(DEADLINE, "it enters", moved).await;
        drop(entered.unwrap().unwrap());
    });
}
