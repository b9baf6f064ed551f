//! P9 and P10: a release moves the lock to exactly the next waiter, with the same request. Hand-offs inside one process
//! are bounded while another one waits. In strict order there are none.

use crate::support::rig::KEY;
use crate::support::stats::Calls;
use crate::support::{DEADLINE, RedisServer, Turns, eventually, processes, queued, unhurried};
use reentry::Locks;

/// Loads every script into the server, so that each operation is one EVALSHA.
async fn warm(locks: &Locks) {
    for _ in 0..2 {
        let guard = locks.lock(KEY).await.unwrap();
        assert!(locks.admin().force_release(KEY).await.unwrap());
        drop(guard.release().await);
    }
}

/// Waits until the waiter of another process has nothing more to request after it has joined. It has sent a request
/// immediately, and one more when its inbox was open.
async fn until_settled(server: &RedisServer, before: &Calls) {
    let settled = async || server.count_since(before, "evalsha").await == 2;
    eventually(DEADLINE, "it waits", settled).await;
}

async fn come_and_settle(server: &RedisServer, turns: &mut Turns, locks: &Locks, name: &str) {
    let before = server.commandstats().await;
    turns.request(locks.lock(KEY), name);
    until_settled(server, &before).await;
}

#[tokio::test]
async fn a_release_moves_the_lock_to_one_waiter_and_wakes_no_other() {
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let waiting: [Locks; 5] = processes(&unhurried(&server)).await;
    warm(&holder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let before = server.commandstats().await;
    let mut first = turns.stay(waiting[0].lock(KEY), "0");
    until_settled(&server, &before).await;
    for (number, locks) in waiting.iter().enumerate().skip(1) {
        come_and_settle(&server, &mut turns, locks, &number.to_string()).await;
    }
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    first.entered().await;
    assert_eq!(server.count_since(&before, "evalsha").await, 1);
    assert_eq!(server.count_since(&before, "publish").await, 1);
    assert_eq!(queued(&server).await, 4);
    assert_eq!(turns.so_far().len(), 1);
    first.leave();
    assert_eq!(turns.names().await, ["0", "1", "2", "3", "4"]);
    // These are the release of the first holder, and that of each of the five. Each of them enters on the message, and
    // does not send a request to check the lock. The last release moves the lock nowhere.
    assert_eq!(server.count_since(&before, "evalsha").await, 6);
    assert_eq!(server.count_since(&before, "publish").await, 5);
    assert_eq!(server.count_since(&before, "eval").await, 0);
}

#[tokio::test]
async fn a_process_that_waits_has_its_turn_after_so_many_local_hand_offs() {
    let server = RedisServer::start().await;
    let [many, one] = processes(&unhurried(&server).turns(3)).await;
    warm(&many).await;
    let guard = many.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for number in 1..=10 {
        turns.come(&many, &format!("a{number}")).await;
    }
    // It is the last one.
    come_and_settle(&server, &mut turns, &one, "b").await;
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    let names = [
        "a1", "a2", "a3", "b", "a4", "a5", "a6", "a7", "a8", "a9", "a10",
    ];
    assert_eq!(turns.names().await, names);
    // These are one release for each group of one holder and three turns, the release of the other process, and an
    // acquire after each release that leaves waiters here. Two releases cause messages: to the other process, and back.
    // The third message tells the other process that this one waits.
    assert_eq!(server.count_since(&before, "evalsha").await, 6);
    assert_eq!(server.count_since(&before, "publish").await, 3);
}
