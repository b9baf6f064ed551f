//! Call graphs of one process that follow each other share one hold in the store, and are distinguished by their tokens.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::Turn;
use crate::support::{
    DEADLINE, RedisServer, Turns, depths, eventually, processes, unhurried, until_waiting, waiters,
    within,
};
use futures_util::FutureExt;
use reentry::__admin::Ids as _;
use reentry::{Locks, held};
use tokio::sync::oneshot;

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
    let [locks] = processes(&unhurried(&server)).await;
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

/// The lease of the group and its renewals are those of the hold. Neither suits a waiter that wants another TTL.
#[tokio::test]
async fn a_waiter_with_another_ttl_or_max_hold_gets_its_own_hold() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server)).await;
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

/// A future that began under the lock of a former member and is polled after its end is not part of the present member,
/// although both show the same hold.
#[tokio::test]
async fn a_future_of_a_former_holder_cannot_re_enter() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server)).await;
    warm(&locks).await;
    let (go_on, may_go_on) = oneshot::channel::<()>();
    let mut turns = Turns::default();
    let late = turns.turn("late");
    let former = locks.with_lock(KEY, async {
        let hold = held(KEY).unwrap().hold_id();
        let (inside, mut is_inside) = oneshot::channel();
        let inner = locks.with_lock("inner", async {
            inside.send(held(KEY).is_some()).unwrap();
            may_go_on.await.unwrap();
            assert!(held(KEY).is_none(), "the former member's part has ended");
            locks.with_lock(KEY, late).await.unwrap();
        });
        let mut inner = Box::pin(inner);
        // It has entered its own lock, and is no longer polled there.
        let entered = async || {
            assert!((&mut inner).now_or_never().is_none());
            is_inside.try_recv().is_ok_and(|held| held)
        };
        eventually(DEADLINE, "the inner lock", entered).await;
        (hold, inner)
    });
    // The next member joins while the former one is inside.
    let mut former = Box::pin(former);
    let inside = async || {
        assert!((&mut former).now_or_never().is_none());
        depths(&locks, KEY).await == [1]
    };
    eventually(DEADLINE, "the former member", inside).await;
    let mut present = turns.stay(locks.lock(KEY), "present");
    until_waiting(&locks, KEY, 1).await;
    let (hold, mut inner) = within(DEADLINE, "its end", former).await.unwrap();
    present.entered().await;
    assert_eq!(turns.so_far()[0].hold, hold, "a member of the same group");

    go_on.send(()).unwrap();
    let waits = async || {
        assert!((&mut inner).now_or_never().is_none());
        waiters(&locks, KEY).await == Some(1)
    };
    eventually(DEADLINE, "it waits like any other", waits).await;
    assert_eq!(depths(&locks, KEY).await, [1]);
    present.leave();
    within(DEADLINE, "its turn", inner).await.unwrap();
    let seen = turns.all().await;
    assert_eq!(seen[1].name, "late");
    assert_eq!(seen[1].depth, 1);
    assert!(seen[1].token > seen[0].token);
}
