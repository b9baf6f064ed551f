//! The number of requests to the sentinels while many requests fail.

use super::ground::{PATIENCE, builder, until_free, until_replicated};
use crate::support::load::{Load, assert_rate};
use crate::support::sentinel::Config;
use crate::support::{SentinelSet, eventually, within};
use futures_util::future::join_all;
use std::time::Duration;

/// Locks that are held. Each is verified from the loss of the connection on.
const MANY: usize = 500;

/// The number of commands in one question to a sentinel, including those of the connection.
const COMMANDS: u64 = 7;

/// Each attempt to connect to the primary asks each of the three sentinels once.
#[tokio::test]
async fn sentinels_are_asked_a_few_times_a_second_while_they_elect() {
    let set = SentinelSet::start_with(Config {
        down_after: Duration::from_secs(3),
        ..Config::default()
    });
    let set = set.await;
    let locks = builder(&set).build().await.unwrap();
    let keys = (0..MANY).map(|number| format!("key-{number}"));
    let held = join_all(keys.map(|key| locks.lock(key).acquire())).await;
    until_replicated(&set, 0).await;
    let sentinels = [&set.sentinels[0], &set.sentinels[1], &set.sentinels[2]];
    let before = Load::of(&sentinels).await;
    set.nodes[0].stop();
    let entered = locks.with_lock("entered in the new primary", async {});
    within(PATIENCE, "a new primary", entered).await.unwrap();
    let (connections, commands, length) = before.so_far(&sentinels).await;
    assert_rate("connections", connections, 10, length, 40);
    // They query each other as well: about 20 commands per second.
    let per_second = COMMANDS * 10 + 20;
    assert_rate("commands", commands, per_second, length, COMMANDS * 40);
    for guard in held {
        assert!(!guard.unwrap().held().is_lost());
    }
}

/// Each rejection is a reason to ask. Two connections do so at most twice per second.
#[tokio::test]
async fn sentinels_are_asked_a_few_times_a_second_while_replicas_are_away() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    set.nodes[0].ask("CONFIG SET min-replicas-to-write 1").await;
    set.nodes[0].cut_replication().await;
    let sentinels = [&set.sentinels[0], &set.sentinels[1], &set.sentinels[2]];
    let before = Load::of(&sentinels).await;
    let keys = (0..MANY).map(|number| format!("key-{number}"));
    let acquiring = join_all(keys.map(|key| locks.lock(key).acquire()));
    let acquiring = tokio::spawn(acquiring);
    let rejected = async || {
        let count = set.nodes[0].errors_of_scripts("NOREPLICAS").await;
        count >= 4 * MANY as u64
    };
    eventually(PATIENCE, "many requests are rejected", rejected).await;
    let (connections, _, length) = before.so_far(&sentinels).await;
    assert_rate("connections", connections, 2 * 2 * 3, length, 20);
    set.nodes[0].restore_replication(2).await;
    for guard in within(PATIENCE, "they enter", acquiring).await.unwrap() {
        guard.unwrap().release().await.unwrap();
    }
    until_free(&set.nodes[0]).await;
}
