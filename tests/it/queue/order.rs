//! P10: processes have their turns in the order in which they came, and so have the waiters of one
//! process.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, eventually, patient, processes, queued, unhurried, until_queued,
};
use reentry::{LockError, Locks, Wake};

async fn waiting_processes(locks: &Locks) -> u64 {
    let info = locks.inspect(KEY).await.unwrap();
    info.expect("a lock that is held").waiting_processes
}

/// In several orders, so that no other order explains it, such as that of the inboxes' names.
#[tokio::test]
async fn processes_enter_in_the_order_in_which_they_came() {
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let waiting: [Locks; 4] = processes(&unhurried(&server)).await;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let guard = holder.lock(KEY).await.unwrap();
        let mut turns = Turns::default();
        for (place, number) in order.into_iter().enumerate() {
            turns.request(waiting[number].lock(KEY), &number.to_string());
            let place = u64::try_from(place).unwrap() + 1;
            let stands = async || waiting_processes(&holder).await == place;
            eventually(DEADLINE, "it stands in the queue", stands).await;
        }
        guard.release().await.unwrap();
        assert_eq!(turns.names().await, order.map(|number| number.to_string()));
    }
}

/// Two processes with three waiters each, which came by turns.
#[tokio::test]
async fn in_strict_order_the_waiters_of_all_processes_have_their_turns_as_they_came() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&unhurried(&server).local_handoffs(0)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let names = ["a1", "b1", "a2", "b2", "a3", "b3"];
    for (number, name) in names.into_iter().enumerate() {
        let locks = if name.starts_with('a') { &one } else { &other };
        turns.come(locks, name).await;
        until_queued(&server, 2.min(u64::try_from(number).unwrap() + 1)).await;
    }
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, names);
}

/// A process has one place, however many wait in it; the holder's own process has none before the
/// others either.
#[tokio::test]
async fn in_strict_order_a_process_with_many_waiters_goes_to_the_end_after_each() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&unhurried(&server).local_handoffs(0)).await;
    let guard = one.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for name in ["a1", "a2", "a3", "a4"] {
        turns.come(&one, name).await;
        until_queued(&server, 1).await;
    }
    for name in ["b1", "b2"] {
        turns.come(&other, name).await;
        until_queued(&server, 2).await;
    }
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["a1", "b1", "a2", "b2", "a3", "a4"]);
}

/// The second waiter of a process takes its place when the first has entered, not when it leaves.
#[tokio::test]
async fn in_strict_order_the_next_waiter_stands_in_the_queue_as_soon_as_the_one_before_is_in() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&unhurried(&server).local_handoffs(0)).await;
    let mut turns = Turns::default();
    let guard = holder.lock(KEY).await.unwrap();
    let mut first = turns.stay(one.lock(KEY), "a1");
    until_queued(&server, 1).await;
    turns.come(&one, "a2").await;
    guard.release().await.unwrap();
    first.entered().await;
    until_queued(&server, 1).await;
    turns.come(&other, "b1").await;
    until_queued(&server, 2).await;
    first.leave();
    assert_eq!(turns.names().await, ["a1", "a2", "b1"]);
}

/// The lock is free in the store and has not moved yet: its lease has ended, as after a crash. The
/// first request moves it to the head of the queue, and gets nothing for that.
#[tokio::test]
async fn who_does_not_wait_does_not_overtake_the_queue() {
    let server = RedisServer::start().await;
    let [holder, waiting, passing] = processes(&unhurried(&server)).await;
    let _lost = holder.lock(KEY).await.unwrap();
    let refused = async || {
        let busy = passing.lock(KEY).no_wait().await;
        let is_busy = matches!(busy, Err(LockError::Busy { .. }));
        is_busy && passing.lock(KEY).try_acquire().await.unwrap().is_none()
    };
    let mut turns = Turns::default();
    let mut waiter = turns.stay(waiting.lock(KEY), "waiter");
    until_queued(&server, 1).await;
    assert!(refused().await);
    assert_eq!(queued(&server).await, 1, "who does not wait takes no place");
    server.ask(&format!("DEL {KEY}")).await;
    assert!(refused().await);
    waiter.entered().await;
    assert_eq!(queued(&server).await, 0);
    waiter.leave();
    assert_eq!(turns.all().await.len(), 1);
    assert!(!refused().await);
}

/// It gets in when no other process waits.
#[tokio::test]
async fn who_asks_more_rarely_than_the_heartbeat_takes_no_place_in_the_queue() {
    let server = RedisServer::start().await;
    let [holder, waiting] = processes(&unhurried(&server)).await;
    let (interval, attempts) = (Duration::from_millis(600), None);
    let rarely = patient(&server).heartbeat(Duration::from_millis(500));
    let [rarely] = processes(&rarely.wake(Wake::Poll { interval, attempts })).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.come(&rarely, "rare").await;
    turns.come(&rarely, "rare too").await;
    turns.come(&waiting, "waiting").await;
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    let names = turns.names().await;
    assert_eq!(names, ["waiting", "rare", "rare too"]);
}
