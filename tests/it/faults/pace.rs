//! The number of attempts to reach an unavailable server, by a process in which many callers want it, and the time
//! until they continue.

use std::time::{Duration, Instant};

use crate::support::load::{Load, assert_rate};
use crate::support::{DEADLINE, Rig, within};
use futures_util::future::join_all;
use reentry::Locks;
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

/// Callers that each want a lock.
const MANY: usize = 1_000;

fn callers(locks: &Locks) -> Vec<JoinHandle<()>> {
    let call = |number| {
        let turn = locks.lock(format!("key-{number}")).wait(Duration::MAX);
        tokio::spawn(async move { turn.run(async {}).await.expect("its turn") })
    };
    (0..MANY).map(call).collect()
}

/// Lasts as long as a caller waits in vain.
async fn outage(locks: &Locks) {
    let waiting = locks.lock("waits in vain").wait(3 * SECOND).acquire();
    let error = within(DEADLINE, "the wait ends", waiting).await;
    assert!(error.unwrap_err().is_unavailable());
}

async fn all_enter(callers: Vec<JoinHandle<()>>) {
    let entered = within(DEADLINE, "all of them enter", join_all(callers)).await;
    entered.into_iter().for_each(|it| it.unwrap());
}

#[tokio::test]
async fn a_proxy_that_closes_at_once_is_connected_to_a_few_times_a_second() {
    let rig = Rig::start().await;
    let keys = (0..MANY).map(|number| format!("held-{number}"));
    let held = join_all(keys.map(|key| rig.locks.lock(key).acquire())).await;
    rig.server.stop();
    let (before, since) = (rig.proxy.connections(), Instant::now());
    let callers = callers(&rig.locks);
    outage(&rig.locks).await;
    let count = rig.proxy.connections() - before;
    assert_rate("connections", count, 5, since.elapsed(), 20);
    for guard in held {
        assert!(!guard.unwrap().held().is_lost());
    }
    rig.server.start_again().await;
    all_enter(callers).await;
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_asked_a_few_times_a_second() {
    let rig = Rig::start().await;
    rig.locks.with_lock("key", async {}).await.unwrap();
    rig.server.ask("REPLICAOF 127.0.0.1 1").await;
    let servers = [&rig.server];
    let before = Load::of(&servers).await;
    let callers = callers(&rig.locks);
    outage(&rig.locks).await;
    let (connections, commands, length) = before.so_far(&servers).await;
    assert_rate("connections", connections, 5, length, 20);
    // Each of the callers has sent one request when it joined. The commands that a script calls count as well.
    assert_rate("commands", commands, 50, length, 8 * MANY as u64);
    rig.server.ask("REPLICAOF NO ONE").await;
    all_enter(callers).await;
}
