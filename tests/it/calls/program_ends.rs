//! P13: a body's exit waits until its release is written. So a program may end right after it.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, child, connect, eventually, patient_at};
use reentry::Locks;
use tokio::runtime::{Builder, Runtime};

/// A lease that lasts longer than the test, so that only a release frees the lock.
const FAR: Duration = Duration::from_secs(600);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// The last lines of a program: it takes a few locks, and `main` returns.
async fn last_lines(url: &str, program: usize) -> Locks {
    let locks = patient_at(url).ttl(FAR).build().await.unwrap();
    // An exit waits for its answer while the server may not know the script.
    for key in ["first".to_owned(), format!("last:{program}")] {
        locks.with_lock(&key, async {}).await.unwrap();
    }
    let both = [format!("one:{program}"), format!("other:{program}")];
    locks.lock_all(&both).run(async {}).await.unwrap();
    locks.lock_all(&both).run(async {}).await.unwrap();
    locks
}

async fn nothing_is_left(server: &RedisServer) {
    let is_free = async || {
        let keys = server.ask("KEYS *").await;
        !keys.lines().any(|key| !key.starts_with("reentry:process:"))
    };
    eventually(DEADLINE, "all locks are free", is_free).await;
}

/// The runtime is dropped with its tasks, as when `main` returns.
fn end_at_once(runtime: fn() -> Runtime, programs: usize) {
    let ground = one_thread();
    let server = ground.block_on(RedisServer::start());
    let url = server.url();
    for program in 0..programs {
        drop(runtime().block_on(last_lines(&url, program)));
    }
    ground.block_on(nothing_is_left(&server));
}

#[test]
fn a_program_on_one_thread_may_end_right_after_a_body() {
    end_at_once(one_thread, 100);
}

#[test]
fn a_program_on_several_threads_may_end_right_after_a_body() {
    end_at_once(two_threads, 100);
}

#[tokio::test]
async fn role_that_returns() {
    let Some(role) = child::role("role_that_returns") else {
        return;
    };
    last_lines(&role.var("REDIS_URL"), 0).await;
    std::process::exit(0);
}

#[tokio::test]
async fn a_process_may_exit_right_after_a_body() {
    let server = RedisServer::start().await;
    let mut program = child::Child::spawn(
        module_path!(),
        "role_that_returns",
        &[("REDIS_URL", &*server.url())],
    );
    program.finished().await;
    nothing_is_left(&server).await;
    drop(connect(&server).await);
}
