//! P1, P9 and P11 when the server goes down below a queue: with its data or without, all waiters get
//! in, one after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    DEADLINE, RedisServer, Section, Turns, eventually, patient, processes, queued, waiters, within,
};
use reentry::{Locks, LocksBuilder, LostReason, held};
use tokio::task::JoinSet;

/// Waiters of either process.
const EACH: usize = 25;

fn builder(server: &RedisServer) -> LocksBuilder {
    let builder = patient(server).ttl(TTL);
    builder
        .heartbeat(Duration::from_millis(500))
        .local_handoffs(4)
}

/// Has the waiters of both processes come, each of which looks in the store, when it has its turn,
/// whether it is really the one that holds the lock.
async fn crowd(section: &Arc<Section>, processes: [&Locks; 2]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for locks in processes {
        for _ in 0..EACH {
            let (locks, section) = (locks.clone(), Arc::clone(section));
            tasks.spawn(async move {
                let visit = section.visit_until(async {
                    let ours = held(KEY).unwrap();
                    let info = locks.inspect(KEY).await.unwrap();
                    let info = info.expect("a lock that is held");
                    let [holder] = &info.holders[..] else {
                        panic!("not one holder, but {info:?}");
                    };
                    assert_eq!(holder.hold_id, ours.hold_id().to_string());
                    assert_eq!(info.token, Some(ours.fencing_token()));
                    assert!(!ours.is_lost());
                });
                locks.with_lock(KEY, visit).await.unwrap();
            });
        }
        let wait = async || waiters(locks, KEY).await == Some(EACH);
        eventually(DEADLINE, "all of them wait", wait).await;
    }
    tasks
}

async fn all(mut tasks: JoinSet<()>) {
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(2 * DEADLINE, "all have their turns", all).await;
}

#[tokio::test]
async fn waiters_outlive_a_restart_and_the_holder_keeps_its_lock() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&builder(&server)).await;
    let (section, guard) = (Arc::default(), holder.lock(KEY).await.unwrap());
    let tasks = crowd(&section, [&one, &other]).await;
    for _ in 0..2 {
        server.restart_with_data().await;
        // All have a connection again, also the waiters.
        let both = async || queued(&server).await == 2;
        eventually(DEADLINE, "both processes stand in the queue", both).await;
        let info = holder.inspect(KEY).await.unwrap().unwrap();
        assert_eq!(info.token, Some(guard.held().fencing_token()));
        assert!(!guard.held().is_lost() && section.visits() == 0);
    }
    guard.release().await.unwrap();
    all(tasks).await;
    assert_eq!(section.visits(), 50);
}

#[tokio::test]
async fn waiters_get_in_after_a_restart_that_lost_the_data() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&builder(&server)).await;
    let (section, guard) = (Arc::default(), holder.lock(KEY).await.unwrap());
    let tasks = crowd(&section, [&one, &other]).await;
    server.restart_empty().await;
    all(tasks).await;
    assert_eq!(section.visits(), 50);
    let lost = within(DEADLINE, "the old holder learns of it", guard.held().lost()).await;
    assert_eq!(lost, LostReason::Gone);
}

/// The one who is inside when the server goes down stays inside, and hands the lock on when it is back.
#[tokio::test]
async fn a_restart_between_two_turns_lets_the_queue_go_on() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&builder(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut stays = Vec::new();
    for (number, locks) in [&one, &other, &one, &other, &one].into_iter().enumerate() {
        stays.push(turns.stay(locks.lock(KEY), &number.to_string()));
    }
    let stand = async || queued(&server).await == 2;
    eventually(DEADLINE, "both processes stand in the queue", stand).await;
    guard.release().await.unwrap();
    // In whichever order they came.
    for count in 1..=5 {
        let inside = async || turns.so_far().len() == count;
        eventually(DEADLINE, "the next one is inside", inside).await;
        server.restart_with_data().await;
        let info = within(DEADLINE, "the server is back", holder.inspect(KEY)).await;
        let turn = turns.so_far().pop().unwrap();
        assert_eq!(info.unwrap().unwrap().token, Some(turn.token));
        let inside = stays.iter_mut().position(|stay| stay.has_entered());
        stays.swap_remove(inside.unwrap()).leave();
    }
    let turns = turns.all().await;
    assert!(turns.is_sorted_by(|a, b| a.token < b.token), "{turns:?}");
}

/// While it is down nothing can be released: the release is repeated, with the same successor, and
/// moves the lock once.
#[tokio::test]
async fn a_release_during_an_outage_moves_the_lock_when_it_is_over() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&builder(&server)).await;
    for moves_to_another_process in [true, false] {
        let guard = holder.lock(KEY).await.unwrap();
        let mut turns = Turns::default();
        if !moves_to_another_process {
            turns.come(&holder, "own").await;
        }
        turns.come(&one, "one").await;
        turns.come(&other, "other").await;
        let stand = async || queued(&server).await >= 2;
        eventually(DEADLINE, "both processes stand in the queue", stand).await;
        server.ask("SAVE").await;
        server.stop();
        let release = tokio::spawn(guard.release());
        server.start_again().await;
        within(DEADLINE, "the release", release)
            .await
            .unwrap()
            .unwrap();
        let turns = turns.all().await;
        assert_eq!(turns.len(), if moves_to_another_process { 2 } else { 3 });
        assert!(turns.is_sorted_by(|a, b| a.token < b.token), "{turns:?}");
    }
}
