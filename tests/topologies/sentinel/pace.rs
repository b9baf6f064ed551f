//! The number of requests to the sentinels while they have to elect another primary.

use super::ground::{PATIENCE, builder, until_replicated};
use crate::support::load::{Load, assert_rate};
use crate::support::sentinel::Config;
use crate::support::{SentinelSet, within};
use futures_util::future::join_all;
use std::time::Duration;

/// Locks that are held. Each is verified from the loss of the connection on.
const MANY: usize = 500;

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
    // They query each other as well: about 20 commands per second.
    assert_rate("connections", connections, 5, length, 20);
    assert_rate("commands", commands, 50 + 20, length, 200);
    for guard in held {
        assert!(!guard.unwrap().held().is_lost());
    }
}
