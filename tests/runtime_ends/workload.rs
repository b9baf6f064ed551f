//! Threads with one runtime each, on one `Locks`. Each runtime ends when all of its tasks have ended, and the next one
//! begins. In the meantime the others wait for its requests.

#![allow(clippy::expect_used, reason = "a test ends where its ground gives way")]

use reentry::{Locks, LocksBuilder};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

const THREADS: usize = 4;
const RUNTIMES: usize = 12;
const TASKS: usize = 6;
const KEYS: usize = 3;

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Locks whose first connection ends with the runtime that made it.
pub(crate) fn connect(builder: LocksBuilder) -> Locks {
    // A busy machine must not count as an outage.
    let patience = Duration::from_secs(20);
    let builder = builder
        .connect_timeout(patience)
        .response_timeout(patience)
        .wait(Duration::MAX);
    runtime().block_on(builder.build()).expect("locks")
}

/// Some are nested, some are guards. Each awaits its release, because one in the background would be lost with the
/// runtime.
async fn task(locks: Locks, number: usize) {
    let key = format!("order:{}", number % KEYS);
    let nested = async {
        yield_now().await;
        locks.with_lock(&key, yield_now()).await
    };
    match number % 3 {
        0 => locks.with_lock(&key, yield_now()).await.expect("a turn"),
        1 => {
            let entered = locks.with_lock(&key, nested).await;
            entered.expect("a turn").expect("an entry");
        }
        _ => {
            let guard = locks.lock(&key).await.expect("a turn");
            guard.release().await.expect("a release");
        }
    }
}

/// Every task is awaited, and the server is healthy. So every waiter has a turn, and nothing panics.
pub(crate) fn run(locks: &Locks) {
    let work = |thread: usize| {
        for round in 0..RUNTIMES {
            runtime().block_on(async {
                let mut tasks = JoinSet::new();
                for number in 0..TASKS {
                    tasks.spawn(task(locks.clone(), thread + round + number));
                }
                tasks.join_all().await;
            });
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || work(thread));
        }
    });
}
