//! A runtime that ends does not affect any other one. Its requests are awaited, and answered or repeated elsewhere. No
//! panic is used for that, not even one that is caught: a program built with `panic = "abort"` would be killed by it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

mod support;
#[path = "runtime_ends/workload.rs"]
mod workload;

use std::future::pending;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use reentry::Locks;
use support::rig::{EVALSHA, KEY};
use support::sweep::poll_times;
use support::{DEADLINE, Direction, RedisServer, Rig, eventually, patient, within};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts panics, caught or not.
#[test]
fn runtimes_that_end_cause_no_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        report(info);
    }));
    workload::run(&Locks::in_memory());
    let ground = Runtime::new().unwrap();
    let server = ground.block_on(RedisServer::start());
    workload::run(&workload::connect(patient(&server)));
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// The runtime ends in the middle of a request that another one then waits for.
fn short_lived() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The runtime that began the change of the depth ends, and the guard's own runtime continues with it.
#[test]
fn a_depth_follows_when_the_runtime_of_the_entry_has_ended() {
    let (first, next) = (short_lived(), Runtime::new().unwrap());
    let rig = next.block_on(Rig::start());
    let guard = next.block_on(rig.locks.lock(KEY).acquire()).unwrap();
    rig.proxy.hold(Direction::ToServer);
    let entered = first.block_on(guard.scope(rig.locks.lock(KEY).acquire()));
    let one = entered.unwrap().unwrap();
    drop(first);
    next.block_on(async {
        rig.proxy
            .wait_until_held(Direction::ToServer, EVALSHA)
            .await;
        let nested = guard.scope(rig.locks.lock(KEY).acquire());
        let nested = within(DEADLINE, "an entry", nested).await.unwrap().unwrap();
        rig.proxy.release(Direction::ToServer);
        rig.until_depth(3).await;
        nested.release().await.unwrap();
    });
    // There is no runtime here.
    drop(one);
    next.block_on(async {
        rig.until_depth(1).await;
        assert!(!guard.held().is_lost());
        guard.release().await.unwrap();
    });
}

/// The guard's own runtime lives, and takes over the release.
#[test]
fn a_release_goes_on_when_the_runtime_that_began_it_has_ended() {
    for is_dropped_first in [true, false] {
        let (first, next) = (short_lived(), Runtime::new().unwrap());
        let rig = next.block_on(Rig::start());
        let guard = next.block_on(rig.locks.lock(KEY).acquire()).unwrap();
        rig.proxy.hold(Direction::ToServer);
        let mut begun = Box::pin(guard.release());
        assert!(first.block_on(poll_times(1, &mut begun)).is_none());
        if is_dropped_first {
            drop(begun);
            drop(first);
        } else {
            drop(first);
            drop(begun);
        }
        next.block_on(async {
            // The requests of the first runtime are lost: only a repetition frees the lock.
            rig.cut().await;
            rig.proxy.heal().await;
            rig.until_free().await;
        });
    }
}

/// Its limit, its place in the queue and the monitoring of its lease belonged to the runtime that has ended.
#[test]
fn a_section_goes_on_in_another_runtime_at_every_step() {
    let (first, next) = (short_lived(), Runtime::new().unwrap());
    let rig = next.block_on(Rig::start());
    let holder = next.block_on(rig.locks.lock(KEY).acquire()).unwrap();
    let body = poll_times(1, pending::<()>());
    let mut waiting = Box::pin(rig.locks.lock(KEY).wait(DEADLINE).run(body));
    assert!(first.block_on(poll_times(1, &mut waiting)).is_none());
    drop(first);
    next.block_on(async {
        let moved = tokio::spawn(waiting);
        holder.release().await.unwrap();
        let entered = within(DEADLINE, "its turn", moved).await;
        assert!(entered.unwrap().unwrap().is_none());
    });
}

/// The section began on a runtime that lives and is not driven any more. What is left of its release belongs to the runtime
/// of its exit.
#[test]
fn a_release_is_finished_where_the_exit_was_polled() {
    let (idle, next) = (short_lived(), Runtime::new().unwrap());
    let rig = next.block_on(Rig::start());
    next.block_on(async {
        // An exit waits for its answer while the server may not know the script.
        rig.locks.with_lock("first", async {}).await.unwrap();
    });
    let (end, ended) = oneshot::channel::<()>();
    let has_entered = AtomicBool::new(false);
    let mut section = Box::pin(rig.locks.with_lock(KEY, async {
        has_entered.store(true, Ordering::Relaxed);
        drop(ended.await);
    }));
    idle.block_on(async {
        let is_inside = async || {
            assert!(poll_times(1, &mut section).await.is_none());
            has_entered.load(Ordering::Relaxed)
        };
        eventually(DEADLINE, "it enters", is_inside).await;
    });
    next.block_on(async {
        rig.proxy.hold(Direction::ToClient);
        end.send(()).unwrap();
        within(DEADLINE, "the exit", section).await.unwrap();
        rig.proxy.release(Direction::ToClient);
        let next = rig.locks.lock(KEY).no_wait().run(async {});
        within(DEADLINE, "the next attempt", next).await.unwrap();
    });
    drop(idle);
}

/// The runtime that continues with the request of another one's attempt ends, and the request arrives later.
#[test]
fn an_attempt_is_undone_although_the_runtime_of_its_driver_has_ended() {
    let (first, next) = (short_lived(), Runtime::new().unwrap());
    let rig = next.block_on(Rig::start());
    next.block_on(async { rig.locks.with_lock("first", async {}).await.unwrap() });
    let before = next.block_on(rig.executed());
    rig.proxy.hold(Direction::ToServer);
    let mut attempt = Box::pin(rig.locks.lock(KEY).no_wait().acquire());
    assert!(next.block_on(poll_times(1, &mut attempt)).is_none());
    // The driver of another caller takes over the request that is in flight.
    first.block_on(async {
        let mut other = Box::pin(rig.locks.with_lock(KEY, async {}));
        assert!(poll_times(1, &mut other).await.is_none());
        drop(other);
        yield_now().await;
    });
    drop(first);
    next.block_on(async {
        let attempted = within(DEADLINE, "the attempt ends", attempt).await;
        assert!(attempted.is_err_and(|error| error.is_unavailable()));
        rig.proxy.release(Direction::ToServer);
        rig.until_executed(before, 1).await;
        rig.until_free().await;
    });
}
