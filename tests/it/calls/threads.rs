//! P2: code that blocks its thread inside a body is still a part of the call, and code on another thread is not.

use std::thread;

use crate::support::{DEADLINE, within};
use reentry::{FutureExt, Locks, held};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const KEY: &str = "order:42";

/// Runs `code` inside the lock, on a worker of a runtime that has another one for the renewals.
async fn inside<T>(locks: &Locks, code: impl FnOnce() -> T) -> T {
    let run = locks.with_lock(KEY, async { code() });
    within(DEADLINE, "the body ends", run).await.unwrap()
}

/// The depth of a nested acquisition, or `None` if another caller is in the way.
async fn nested(locks: &Locks) -> Option<u32> {
    let guard = locks.lock(KEY).try_acquire().await.unwrap();
    guard.map(|guard| guard.held().depth())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_in_block_in_place_re_enters() {
    let locks = Locks::in_memory();
    let code = || block_in_place(|| Handle::current().block_on(nested(&locks)));
    assert_eq!(inside(&locks, code).await, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scoped_thread_is_another_caller() {
    let (locks, runtime) = (Locks::in_memory(), Handle::current());
    let code = || {
        let on_thread = || (held(KEY).is_some(), runtime.block_on(nested(&locks)));
        thread::scope(|threads| threads.spawn(on_thread).join().unwrap())
    };
    assert_eq!(inside(&locks, code).await, (false, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scoped_thread_re_enters_in_the_current_call() {
    let (locks, runtime) = (Locks::in_memory(), Handle::current());
    let code = || {
        let nested = nested(&locks).in_current_call();
        thread::scope(|threads| threads.spawn(|| runtime.block_on(nested)).join().unwrap())
    };
    assert_eq!(inside(&locks, code).await.unwrap(), Some(2));
}
