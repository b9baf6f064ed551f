//! P9 and P10: a release moves the lock to exactly the next waiter, in the request that it is; and
//! hand-offs inside one process are bounded while another one waits.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::stats::Calls;
use crate::support::{
    Action, DEADLINE, Direction, Proxy, RedisServer, Turns, eventually, processes, queued,
    unhurried, until_queued, within,
};
use reentry::{Locks, LostReason};

/// Has every script on the server, so that each operation is one EVALSHA.
async fn warm(locks: &Locks) {
    for _ in 0..2 {
        let guard = locks.lock(KEY).await.unwrap();
        assert!(locks.force_release(KEY).await.unwrap());
        drop(guard.release().await);
    }
}

async fn calls(server: &RedisServer, before: &Calls, command: &str) -> u64 {
    let calls = server.calls_since(before).await;
    calls.get(command).copied().unwrap_or(0)
}

/// Waits until there is nothing more to ask for the waiter of another process that has come: it has
/// asked at once, and once more when its inbox was open.
async fn until_settled(server: &RedisServer, before: &Calls) {
    let settled = async || calls(server, before, "evalsha").await == 2;
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
    assert_eq!(calls(&server, &before, "evalsha").await, 1);
    assert_eq!(calls(&server, &before, "publish").await, 1);
    assert_eq!(queued(&server).await, 4);
    assert_eq!(turns.so_far().len(), 1);
    first.leave();
    assert_eq!(turns.names().await, ["0", "1", "2", "3", "4"]);
}

/// The receiver enters on the message: it does not even ask whether it has the lock.
#[tokio::test]
async fn a_hand_off_to_another_process_is_one_request() {
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let waiting: [Locks; 6] = processes(&unhurried(&server)).await;
    warm(&holder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for (number, locks) in waiting.iter().enumerate() {
        come_and_settle(&server, &mut turns, locks, &number.to_string()).await;
    }
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 6);
    // The release of the first holder, and that of each of the six; the last one moves it nowhere.
    assert_eq!(calls(&server, &before, "evalsha").await, 7);
    assert_eq!(calls(&server, &before, "publish").await, 6);
    assert_eq!(calls(&server, &before, "eval").await, 0);
}

#[tokio::test]
async fn a_hand_off_inside_the_process_is_one_request_and_no_message() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server).local_handoffs(3)).await;
    warm(&locks).await;
    let guard = locks.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for number in 0..10 {
        turns.come(&locks, &number.to_string()).await;
    }
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 10);
    // No other process waits, so that nothing is bounded.
    assert_eq!(calls(&server, &before, "evalsha").await, 11);
    assert_eq!(calls(&server, &before, "publish").await, 0);
}

#[tokio::test]
async fn a_process_that_waits_has_its_turn_after_so_many_local_hand_offs() {
    let server = RedisServer::start().await;
    let [many, one] = processes(&unhurried(&server).local_handoffs(3)).await;
    warm(&many).await;
    let guard = many.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for number in 1..=10 {
        turns.come(&many, &format!("a{number}")).await;
    }
    // It comes last of all.
    come_and_settle(&server, &mut turns, &one, "b").await;
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    let names = [
        "a1", "a2", "a3", "b", "a4", "a5", "a6", "a7", "a8", "a9", "a10",
    ];
    assert_eq!(turns.names().await, names);
    // Each release is one request, and two of them are messages: to the other process, and back.
    assert_eq!(calls(&server, &before, "evalsha").await, 12);
    assert_eq!(calls(&server, &before, "publish").await, 2);
}

#[tokio::test]
async fn two_processes_with_many_waiters_take_turns_by_as_many_as_the_bound_allows() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&unhurried(&server).local_handoffs(2)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for (locks, name, place) in [(&one, 'a', 1), (&other, 'b', 2)] {
        for number in 1..=7 {
            turns.come(locks, &format!("{name}{number}")).await;
            until_queued(&server, place).await;
        }
    }
    guard.release().await.unwrap();
    // The first of a group has the lock from another process, and hands it on twice.
    let names = [
        "a1", "a2", "a3", "b1", "b2", "b3", "a4", "a5", "a6", "b4", "b5", "b6", "a7", "b7",
    ];
    assert_eq!(turns.names().await, names);
}

/// The receiver may be dead. Its lease is counted from the move, however late the message comes.
#[tokio::test]
async fn a_lock_that_has_moved_has_a_short_lease_until_it_is_renewed() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let heartbeat = Duration::from_secs(3);
    let [holder] = processes(&unhurried(&server)).await;
    let [waiting] = processes(&unhurried(&server).heartbeat(heartbeat).url(proxy.url())).await;
    warm(&holder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let before = server.commandstats().await;
    let waiter = tokio::spawn(waiting.lock(KEY).acquire());
    until_settled(&server, &before).await;
    proxy.on_next(Direction::ToClient, b"$7\r\nmessage\r\n", Action::Hold);
    guard.release().await.unwrap();
    let pttl = async || {
        server
            .ask(&format!("PTTL {KEY}"))
            .await
            .parse::<u64>()
            .unwrap()
    };
    let late = async || pttl().await < 5_900;
    eventually(DEADLINE, "some time has passed", late).await;
    proxy.release(Direction::ToClient);
    let waiter = within(DEADLINE, "it enters", waiter).await.unwrap();
    let guard = waiter.unwrap();
    let renewed = async || guard.held().remaining() > 2 * heartbeat && pttl().await > 6_000;
    let remaining = guard.held().remaining();
    assert!(remaining < Duration::from_millis(5_900), "{remaining:?}");
    eventually(DEADLINE, "it is renewed", renewed).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_forced_release_moves_the_lock_on_to_a_process_that_waits() {
    let server = RedisServer::start().await;
    let [holder, waiting, behind, admin] = processes(&unhurried(&server)).await;
    warm(&admin).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let before = server.commandstats().await;
    let mut first = turns.stay(waiting.lock(KEY), "first");
    until_settled(&server, &before).await;
    come_and_settle(&server, &mut turns, &behind, "behind").await;
    let before = server.commandstats().await;
    assert!(admin.force_release(KEY).await.unwrap());
    first.entered().await;
    // One to the process that enters, and one to all.
    assert_eq!(calls(&server, &before, "publish").await, 2);
    // One to see who holds it, one to end that, and nothing of the one that enters.
    assert_eq!(calls(&server, &before, "evalsha").await, 2);
    let error = guard.release().await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    assert_eq!(turns.so_far().len(), 1, "what is lost is released once");
    first.leave();
    assert_eq!(turns.names().await, ["first", "behind"]);
}

/// The holder's own waiters stand in the queue of their process, and are not forgotten there.
#[tokio::test]
async fn a_forced_release_is_noticed_by_the_waiters_behind_the_holder() {
    let server = RedisServer::start().await;
    let ttl = Duration::from_secs(3);
    let [holder, admin] = processes(&unhurried(&server).ttl(ttl)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.come(&holder, "behind").await;
    assert!(admin.force_release(KEY).await.unwrap());
    let lost = within(DEADLINE, "the loss", guard.held().lost()).await;
    assert_eq!(lost, LostReason::Gone);
    assert_eq!(turns.names().await, ["behind"]);
}
