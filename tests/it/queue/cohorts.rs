//! Call graphs of one process that follow each other share one hold in the store, and are distinguished by their tokens.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::Turn;
use crate::support::{
    DEADLINE, RedisServer, Turns, eventually, processes, unhurried, until_waiting, within,
};
use reentry::__admin::Ids as _;
use reentry::{Locks, LocksBuilder, held};
use tokio::task::{JoinSet, yield_now};

fn cohort(server: &RedisServer) -> LocksBuilder {
    unhurried(server)
}

/// The turns in groups that show the same hold.
fn groups(turns: &[Turn]) -> Vec<usize> {
    turns
        .chunk_by(|one, other| one.hold == other.hold)
        .map(<[Turn]>::len)
        .collect()
}

/// Loads every script into the server, so that each operation is one EVALSHA.
async fn warm(locks: &Locks) {
    for _ in 0..2 {
        locks.with_lock(KEY, async {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_group_of_waiters_costs_one_request() {
    let server = RedisServer::start().await;
    let [locks] = processes(&cohort(&server)).await;
    warm(&locks).await;
    let guard = locks.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for number in 0..64 {
        turns.come(&locks, &number.to_string()).await;
    }
    let before = server.commandstats().await;
    let first = guard.held().clone();
    guard.release().await.unwrap();
    let seen = turns.all().await;
    // They are all one group, because the inbox would bring a message if another process joined. The request is its
    // release.
    assert_eq!(groups(&seen), [64]);
    assert_eq!(server.count_since(&before, "evalsha").await, 1);
    assert_eq!(seen[0].hold, first.hold_id());
    assert!(seen[0].token > first.fencing_token());
    assert!(seen.is_sorted_by(|a, b| a.token < b.token), "{seen:?}");
    assert!(seen.iter().all(|turn| turn.depth == 1), "{seen:?}");
    let in_order = (0..64).map(|number| number.to_string());
    assert!(seen.iter().map(|turn| turn.name.clone()).eq(in_order));
    assert_eq!(server.ask(&format!("EXISTS {KEY}")).await, "0");
}

/// Its heartbeat is longer than the test, so only the message can bring it its turn.
#[tokio::test]
async fn a_process_that_arrives_later_enters_between_local_turns() {
    let server = RedisServer::start().await;
    let [many, one] = processes(&cohort(&server)).await;
    warm(&many).await;
    let sections = Arc::new(AtomicU64::new(0));
    let mut looping = JoinSet::new();
    for _ in 0..3 {
        let (many, sections) = (many.clone(), Arc::clone(&sections));
        looping.spawn(async move {
            loop {
                many.with_lock(KEY, yield_now()).await.unwrap();
                sections.fetch_add(1, Relaxed);
            }
        });
    }
    let so_many_more = async |count| {
        let end = sections.load(Relaxed) + count;
        let are_over = async || sections.load(Relaxed) >= end;
        eventually(DEADLINE, "sections", are_over).await;
    };
    so_many_more(1_000).await;
    let before = server.commandstats().await;
    so_many_more(1_000).await;
    assert!(
        server.count_since(&before, "evalsha").await < 20,
        "they are in memory"
    );
    let turn = one.with_lock(KEY, async { sections.load(Relaxed) });
    within(DEADLINE, "its turn", turn).await.unwrap();
    so_many_more(100).await;
}

#[tokio::test]
async fn an_inspection_shows_the_first_token_of_the_group() {
    let server = RedisServer::start().await;
    let [locks] = processes(&cohort(&server)).await;
    warm(&locks).await;
    let look = || async {
        let own = held(KEY).unwrap().fencing_token();
        (
            own,
            locks.admin().inspect(KEY).await.unwrap().unwrap().token,
        )
    };
    let visit = || locks.with_lock(KEY, look());
    let (one, two, three) = tokio::try_join!(visit(), visit(), visit()).unwrap();
    assert!(one.0 < two.0 && two.0 < three.0);
    assert_eq!([one.1, two.1, three.1], [Some(one.0); 3], "one hold");
}

/// The lease of the group and its renewals are those of the hold. Neither suits a waiter that wants another TTL.
#[tokio::test]
async fn a_waiter_with_another_ttl_or_max_hold_gets_its_own_hold() {
    let server = RedisServer::start().await;
    let [locks] = processes(&cohort(&server)).await;
    warm(&locks).await;
    let guard = locks.lock(KEY).await.unwrap();
    let hold = guard.held().hold_id();
    let mut turns = Turns::default();
    turns.come(&locks, "member").await;
    let second = Duration::from_secs(1);
    for (count, request) in [
        locks.lock(KEY).ttl(30 * second),
        locks.lock(KEY).max_hold(90 * second),
        locks.lock(KEY),
        locks.lock(KEY).wait(Duration::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        turns.request(request, &count.to_string());
        until_waiting(&locks, KEY, count + 2).await;
    }
    guard.release().await.unwrap();
    let seen = turns.all().await;
    assert_eq!(seen[0].hold, hold);
    assert_eq!(groups(&seen), [1, 1, 1, 2]);
    assert!(seen.is_sorted_by(|a, b| a.token < b.token), "{seen:?}");
}
