//! The example `worker`, ended by SIGTERM.

use std::time::Duration;

use super::clock::{self, go_on};
use crate::support::{Child, DEADLINE, RedisServer, child, connect, depths, eventually};

#[path = "../../../examples/services/worker.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

/// How long a job takes.
const WORK: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn role_that_works() {
    let Some(role) = child::role("role_that_works") else {
        return;
    };
    let locks = clock::locks_of(&role).build_lazy().unwrap();
    clock::run(&role, example::run(locks)).await.unwrap();
}

/// One account is free, and a job of it has begun; the other one is in use elsewhere, and a job waits for it.
#[tokio::test]
async fn sigterm_gives_back_what_waits_and_lets_the_job_finish() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let guard = locks.lock("account:1").await.unwrap();
    let waiting = async || {
        let info = locks.inspect("account:1").await.unwrap();
        info.map(|info| info.waiting_processes)
    };
    let variables = [("REDIS_URL", &*server.url())];
    let mut worker = Child::spawn(module_path!(), "role_that_works", &variables);
    // Redis would tell too soon: there the lock is taken before the worker has read that it is.
    worker.wait_for_line("begun").await;
    let waits = async || waiting().await == Some(1);
    eventually(DEADLINE, "a job waits", waits).await;

    worker.sigterm();
    worker.wait_for_line("back in the queue").await;
    let has_left = async || waiting().await == Some(0);
    eventually(DEADLINE, "no job waits", has_left).await;
    assert_eq!(depths(&locks, "account:0").await, [1]);

    go_on(&mut worker, WORK);
    worker.wait_for_line("done").await;
    let report = worker.wait_for_line("locks closed:").await;
    assert_eq!(report, "nothing is left");
    assert!(worker.finished().await);
    guard.release().await.unwrap();
    assert!(server.leftovers().await.is_empty());
}
