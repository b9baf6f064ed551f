//! One `Locks` over several runtimes, each of which has opened some of the connections to the sentinels.

use std::time::Duration;

use super::ground::{PATIENCE, builder, until_free, until_replicated, until_taken_in};
use crate::support::rig::KEY;
use crate::support::{DEADLINE, SentinelSet, eventually, within};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn locks_follow_a_failover_in_the_next_runtime_when_the_first_one_has_ended() {
    let (first, next) = (runtime(), runtime());
    let set = next.block_on(SentinelSet::start());
    let locks = first.block_on(builder(&set).build()).unwrap();
    let guard = first.block_on(locks.lock(KEY).acquire()).unwrap();
    drop(first);
    next.block_on(async {
        within(DEADLINE, "it enters", locks.with_lock("other", async {}))
            .await
            .unwrap();
        until_replicated(&set, 0).await;
        let new = set.failover().await;
        until_taken_in(&set.nodes[new], &locks).await;
        guard.release().await.unwrap();
        until_free(&set.nodes[new]).await;
    });
}

/// This is like a program that calls `block_on` for each job. Between jobs none of its code runs, and no connection
/// that it has opened responds.
#[test]
fn sentinels_are_asked_although_the_runtime_that_connected_stands_still() {
    let (still, next) = (runtime(), Runtime::new().unwrap());
    let set = next.block_on(SentinelSet::start());
    let timeout = Duration::from_secs(3);
    let builder = builder(&set)
        .connect_timeout(timeout)
        .response_timeout(timeout);
    let locks = still.block_on(async {
        let mut locks = None;
        let connects = async || {
            locks = builder.clone().build().await.ok();
            locks.is_some()
        };
        eventually(DEADLINE, "it connects", connects).await;
        locks.unwrap()
    });
    next.block_on(async {
        set.nodes[0].kill_command_connections().await;
        let entering = locks.with_lock(KEY, async {});
        within(PATIENCE / 2, "it enters", entering).await.unwrap();
    });
    drop(still);
}
