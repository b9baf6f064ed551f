//! The number of requests to the sentinels while many requests fail.

use super::ground::{PATIENCE, builder, until_replicated};
use crate::support::load::{Load, assert_rate};
use crate::support::sentinel::Config;
use crate::support::{SentinelSet, within};
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
