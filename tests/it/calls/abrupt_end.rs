//! P7: a body leaves no lock if it panics, times out, loses a `select!`, or is dropped outside its runtime or together
//! with it.

use std::future::pending;
use std::panic::AssertUnwindSafe;

use crate::support::sweep::{Ground, KEY, on_both_grounds, poll_times};
use crate::support::{DEADLINE, RedisServer, eventually, patient_at, within};
use futures_util::FutureExt;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::yield_now;

on_both_grounds!(
    a_panicking_body_in_a_task_releases,
    a_panic_in_a_nested_body_takes_off_its_own_level,
    a_panic_while_the_body_is_dropped_releases,
    a_drop_on_a_thread_outside_the_runtime_releases,
);

async fn a_panicking_body_in_a_task_releases(ground: Ground) {
    let body = async {
        yield_now().await;
        panic!("on purpose");
    };
    let task = tokio::spawn(ground.locks.with_lock(KEY, body));
    assert!(task.await.unwrap_err().is_panic());
    ground.settle("a panic in a task").await;
}

async fn a_panic_in_a_nested_body_takes_off_its_own_level(ground: Ground) {
    let outer = ground.locks.with_lock(KEY, async {
        let inner = ground.locks.with_lock(KEY, async {
            yield_now().await;
            panic!("on purpose");
        });
        assert!(AssertUnwindSafe(inner).catch_unwind().await.is_err());
        let right = async || ground.depth().await == 1;
        eventually(DEADLINE, "the depth is that of the outer body", right).await;
        assert_eq!(reentry::held(KEY).map(|held| held.depth()), Some(1));
    });
    outer.await.unwrap();
    ground.settle("a panic in a nested body").await;
}

async fn a_panic_while_the_body_is_dropped_releases(ground: Ground) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let bomb = Bomb;
    let task = tokio::spawn(ground.locks.with_lock(KEY, async move {
        let _bomb = bomb;
        pending::<()>().await;
    }));
    eventually(DEADLINE, "the body runs", async || {
        ground.depth().await == 1
    })
    .await;
    task.abort();
    assert!(task.await.is_err());
    ground.settle("a panic in a drop").await;
}

async fn a_drop_on_a_thread_outside_the_runtime_releases(ground: Ground) {
    for polls in 1.. {
        let mut locked = Box::pin(ground.locks.with_lock(KEY, async {
            yield_now().await;
            let inner = ground.locks.with_lock(KEY, yield_now());
            inner.await.unwrap();
        }));
        let completed = poll_times(polls, locked.as_mut()).await.is_some();
        std::thread::scope(|threads| threads.spawn(move || drop(locked)).join().unwrap());
        ground.settle("a drop elsewhere").await;
        if completed {
            return;
        }
    }
}

/// It runs on a separate thread, so that a runtime that hangs in its shutdown fails the test.
async fn off_thread(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        work();
        done.send(())
    });
    within(DEADLINE, "the runtime shuts down", ended)
        .await
        .expect("no panic");
}

/// Fills a runtime with holders, nested holders, waiters and guards, and drops it.
fn shut_down_in_the_middle(url: &str, threads: usize) {
    let mut builder = match threads {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .unwrap();
    let (locks, guard) = runtime.block_on(async {
        let locks = patient_at(url).build().await.unwrap();
        for key in ["a", "b", "c"] {
            let (entered, inside) = oneshot::channel();
            let nested = locks.with_lock(key, async move {
                entered.send(()).unwrap();
                pending::<()>().await;
            });
            tokio::spawn(locks.with_lock(key, nested));
            inside.await.unwrap();
            for _ in 0..5 {
                tokio::spawn(locks.with_lock(key, pending::<()>()));
                tokio::spawn(locks.lock(key).acquire());
                yield_now().await;
            }
        }
        let guard = locks.lock("guarded").await.unwrap();
        (locks, guard)
    });
    drop(runtime);
    drop(guard);
    drop(locks);
}

#[tokio::test]
async fn a_runtime_may_be_shut_down_in_the_middle_of_everything() {
    let server = RedisServer::start().await;
    for url in [server.url(), "memory:".to_owned()] {
        // It is repeated many times with threads, because the shutdown may meet a task at every step.
        for threads in [0; 2].into_iter().chain([2; 20]) {
            let url = url.clone();
            off_thread(move || shut_down_in_the_middle(&url, threads)).await;
            server.ask("FLUSHALL").await;
        }
    }
}
