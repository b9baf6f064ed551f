//! P13: a body's exit waits until its release is written. So a program may end right after it.

#[cfg(feature = "tls")]
use std::fs;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};

#[cfg(feature = "tls")]
use crate::support::TlsRedisServer;
use crate::support::{DEADLINE, RedisServer, eventually, patient_at, within};
#[cfg(feature = "tls")]
use reentry::Certificates;
use reentry::{Locks, LocksBuilder};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A lease that lasts longer than the test, so that only a release frees the lock.
const FAR: Duration = Duration::from_secs(600);

/// The number of programs of each kind.
const PROGRAMS: usize = 20;

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// The last lines of a program: it takes a few locks, and `main` returns.
async fn last_lines(builder: LocksBuilder, program: usize) -> Locks {
    let locks = builder.ttl(FAR).build().await.unwrap();
    let both = [format!("one:{program}"), format!("other:{program}")];
    // An exit waits for its answer while the server may not know the script.
    for key in ["first", "last"] {
        locks.with_lock(key, async {}).await.unwrap();
        locks.lock_all(&both).run(async {}).await.unwrap();
    }
    locks
}

async fn nothing_is_left(server: &RedisServer) {
    let is_free = async || {
        let keys = server.ask("KEYS *").await;
        !keys.lines().any(|key| !key.starts_with("reentry:process:"))
    };
    eventually(DEADLINE, "all locks are free", is_free).await;
}

/// Programs that end one after the other. A runtime is dropped with its tasks, as when `main` returns.
fn end_at_once(server: &RedisServer, programs: usize, builder: impl Fn() -> LocksBuilder) {
    for program in 0..programs {
        let runtime = if program % 2 == 0 {
            one_thread()
        } else {
            two_threads()
        };
        drop(runtime.block_on(last_lines(builder(), program)));
    }
    one_thread().block_on(nothing_is_left(server));
}

#[test]
fn a_program_may_end_right_after_a_body() {
    let server = one_thread().block_on(RedisServer::start());
    end_at_once(&server, PROGRAMS, || patient_at(server.url()));
    let socket = format!("redis+unix://{}", server.socket().display());
    end_at_once(&server, PROGRAMS, || patient_at(&socket));
}

#[cfg(feature = "tls")]
#[test]
fn a_program_may_end_right_after_a_body_behind_tls() {
    // Its threads may have to decrypt for the server.
    let ground = two_threads();
    let server = ground.block_on(TlsRedisServer::start());
    let authority = fs::read(server.ca_file()).unwrap();
    end_at_once(&server.server, PROGRAMS, || {
        let certificates = Certificates::new().authority(authority.clone());
        patient_at(server.url()).certificates(certificates)
    });
}

/// The release of each lock meets a process that waits for it, and travels with others.
#[test]
fn a_program_may_end_right_after_bodies_while_others_wait() {
    let ground = two_threads();
    let server = ground.block_on(RedisServer::start());
    let other = ground.block_on(patient_at(server.url()).wait(DEADLINE).build());
    let other = other.unwrap();
    let program = one_thread();
    let keys: Vec<_> = (0..8).map(|number| format!("order:{number}")).collect();
    let (open, gate) = watch::channel(false);
    let mut waiters = JoinSet::new();
    program.block_on(async {
        let locks = last_lines(patient_at(server.url()), 0).await;
        let until_all_wait = async {
            let held = format!("EXISTS {}", keys.join(" "));
            let are_held = async || server.ask(&held).await == keys.len().to_string();
            eventually(DEADLINE, "all locks are held", are_held).await;
            for key in &keys {
                let (other, key) = (other.clone(), key.clone());
                let wait = async move { other.with_lock(key, async {}).await };
                waiters.spawn_on(wait, ground.handle());
            }
            for key in &keys {
                let queue = format!("ZCARD reentry:queue:{{{key}}}:{key}");
                let is_queued = async || server.ask(&queue).await == "1";
                eventually(DEADLINE, "the other process waits", is_queued).await;
            }
            open.send(true).unwrap();
        };
        let (several, single) = keys.split_at(keys.len() / 2);
        let bodies = single.iter().map(|key| {
            let mut gate = gate.clone();
            locks.with_lock(
                key,
                async move { drop(gate.wait_for(|is_open| *is_open).await) },
            )
        });
        let together = locks.lock_all(several).run(until_all_wait);
        try_join(together, try_join_all(bodies)).await.unwrap();
    });
    drop(program);
    ground.block_on(async {
        let entered = within(DEADLINE, "all waiters enter", waiters.join_all()).await;
        assert!(entered.iter().all(Result::is_ok), "{entered:?}");
    });
}
