//! P7 across runtimes: a queue goes on although the runtime that served it stands still or is gone.

use crate::support::sweep::poll_times;
use crate::support::{DEADLINE, eventually, waiters, within};
use reentry::Locks;
use tokio::runtime::{Builder, Runtime};

const KEY: &str = "order:42";

fn still() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn running() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_waiter_gets_in_although_the_driver_of_its_queue_stands_still() {
    let (still, running) = (still(), running());
    let locks = Locks::in_memory();
    let holder = running.block_on(locks.lock(KEY).acquire()).unwrap();
    let mut first = Box::pin(locks.with_lock(KEY, async {}));
    assert!(still.block_on(poll_times(1, &mut first)).is_none());
    let queued = locks.clone();
    let second = running.spawn(async move { queued.lock(KEY).wait_forever().acquire().await });
    running.block_on(async {
        eventually(DEADLINE, "both wait", async || {
            waiters(&locks, KEY).await == Some(2)
        })
        .await;
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
    let mut moved = Box::pin(locks.lock(KEY).wait_forever().acquire());
    assert!(first.block_on(poll_times(1, &mut moved)).is_none());
    drop(first);
    next.block_on(async {
        let moved = tokio::spawn(moved);
        holder.release().await.unwrap();
        let entered = within(DEADLINE, "it enters", moved).await;
        drop(entered.unwrap().unwrap());
    });
}
