//! P11: whichever way a lock comes to its next holder, that one has a greater token than all before.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::{TTL, Turn};
use crate::support::{
    Action, DEADLINE, Direction::ToClient, Proxy, RedisServer, Turns, eventually, patient,
    processes, unhurried, until_queued, waiters, within,
};
use reentry::{FencingToken, HandOff, LockGuard, Locks, LocksBuilder, Wake};

/// What only a message of a subscription contains.
const MESSAGE: &[u8] = b"$7\r\nmessage\r\n";

fn increase(turns: &[Turn]) -> bool {
    turns.is_sorted_by(|one, next| one.token < next.token)
}

/// So many waiters of each process have their turns, behind a holder.
async fn crowd(holder: &Locks, processes: &[Locks], each: usize) -> Vec<Turn> {
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for locks in processes {
        for number in 0..each {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    for locks in processes {
        let wait = async || waiters(locks, KEY).await == Some(each);
        eventually(DEADLINE, "all of them wait", wait).await;
    }
    let before = guard.held().fencing_token();
    guard.release().await.unwrap();
    let turns = turns.all().await;
    assert!(turns.iter().all(|turn| turn.token > before));
    turns
}

#[tokio::test]
async fn tokens_increase_from_waiter_to_waiter_and_from_process_to_process() {
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let two: [Locks; 2] = processes(&unhurried(&server).local_handoffs(2)).await;
    let turns = crowd(&holder, &two, 10).await;
    assert!(turns.len() == 20 && increase(&turns), "{turns:?}");
}

/// The tokens that a group counts in memory are passed before the lock goes to another process.
#[tokio::test]
async fn tokens_increase_from_group_to_group() {
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let builder = unhurried(&server).handoff(HandOff::InProcess);
    let grouped: [Locks; 2] = processes(&builder.clone().local_handoffs(3)).await;
    let [alone] = processes(&unhurried(&server)).await;
    let [large] = processes(&builder.local_handoffs(1_000)).await;
    let [one, other] = grouped;
    let turns = crowd(&holder, &[one, other, alone, large], 10).await;
    assert!(turns.len() == 40 && increase(&turns), "{turns:?}");
}

/// A waiter that received no message has the token with which the lock has moved to it.
#[tokio::test]
async fn tokens_increase_where_the_messages_are_lost() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    proxy.on_every(ToClient, MESSAGE, Action::Lose);
    let options = |builder: LocksBuilder| {
        let builder = builder.ttl(TTL).heartbeat(Duration::from_millis(300));
        builder.local_handoffs(1)
    };
    let [holder, told] = processes(&options(patient(&server))).await;
    let [untold] = processes(&options(patient(&server).url(proxy.url()))).await;
    let turns = crowd(&holder, &[told, untold], 6).await;
    assert!(turns.len() == 12 && increase(&turns), "{turns:?}");
}

/// Those who are told, those who ask, and those who share a hold.
#[tokio::test]
async fn tokens_increase_among_processes_of_every_kind() {
    let server = RedisServer::start().await;
    let builder = patient(&server).ttl(TTL).local_handoffs(2);
    let interval = Duration::from_millis(5);
    let attempts = None;
    let kinds = [
        builder.clone(),
        builder.clone().handoff(HandOff::InProcess),
        builder.clone().wake(Wake::Backoff),
        builder.clone().wake(Wake::Poll { interval, attempts }),
    ];
    let mut built = Vec::new();
    for kind in kinds {
        built.push(kind.build().await.unwrap());
    }
    let [holder] = processes(&builder).await;
    let turns = crowd(&holder, &built, 8).await;
    assert!(turns.len() == 32 && increase(&turns), "{turns:?}");
}

/// Lets a caller wait in each process in turn, and ends the hold before it. Returns the tokens.
async fn chain(
    server: &RedisServer,
    processes: &[Locks],
    end: impl AsyncFn(&Locks),
    request: impl Fn(&Locks) -> reentry::LockRequest,
) -> Vec<FencingToken> {
    let mut guards: Vec<LockGuard> = Vec::new();
    guards.push(request(&processes[0]).await.unwrap());
    for round in 1..8 {
        let locks = &processes[round % processes.len()];
        let next = tokio::spawn(request(locks).acquire());
        until_queued(server, 1).await;
        end(&processes[0]).await;
        let next = within(DEADLINE, "the next holder", next).await;
        guards.push(next.unwrap().unwrap());
    }
    guards
        .iter()
        .map(|guard| guard.held().fencing_token())
        .collect()
}

#[tokio::test]
async fn tokens_increase_over_forced_releases() {
    let server = RedisServer::start().await;
    let heartbeat = Duration::from_millis(500);
    let three: [Locks; 3] = processes(&patient(&server).ttl(TTL).heartbeat(heartbeat)).await;
    // The process of a hold that has been ended learns of it when a caller in it asks.
    let force = async |locks: &Locks| assert!(locks.force_release(KEY).await.unwrap());
    let tokens = chain(&server, &three, force, |locks| locks.lock(KEY)).await;
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test]
async fn tokens_increase_over_leases_that_end() {
    let server = RedisServer::start().await;
    let three: [Locks; 3] = processes(&unhurried(&server)).await;
    // It is not renewed, as if each holder had died.
    let ttl = Duration::from_millis(300);
    let dying = |locks: &Locks| locks.lock(KEY).ttl(ttl).max_hold(ttl);
    let tokens = chain(&server, &three, async |_: &Locks| {}, dying).await;
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test]
async fn tokens_increase_when_the_key_is_deleted_below_a_queue() {
    let server = RedisServer::start().await;
    let two: [Locks; 2] = processes(&patient(&server).heartbeat(Duration::from_millis(300))).await;
    for command in [format!("DEL {KEY}"), "FLUSHALL".to_owned()] {
        let delete = async |_: &Locks| drop(server.ask(&command).await);
        let tokens = chain(&server, &two, delete, |locks| locks.lock(KEY)).await;
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        server.ask("FLUSHALL").await;
    }
}
