//! `HandOff::InProcess` where it goes wrong: what is lost or dropped is so for one member, and the next
//! one goes on or asks for itself.

use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::sweep::poll_times;
use crate::support::trio::released_at;
use crate::support::{
    DEADLINE, RedisServer, Turns, depths, eventually, processes, queued, unhurried, until_queued,
    waiters, within,
};
use futures_util::FutureExt;
use reentry::{HandOff, LockError, Locks, LostReason, held};
use tokio::sync::oneshot;

/// Short enough for renewals to come soon, and far longer than a busy machine pauses.
const LEASE: Duration = Duration::from_secs(6);

async fn ground() -> (RedisServer, Locks, Locks) {
    let server = RedisServer::start().await;
    let builder = unhurried(&server).ttl(LEASE).handoff(HandOff::InProcess);
    let [locks, elsewhere] = processes(&builder).await;
    // Where no token of the key is known, an acquisition gets a single one, and is no group.
    locks.with_lock(KEY, async {}).await.unwrap();
    (server, locks, elsewhere)
}

async fn until_waiting(locks: &Locks, count: usize) {
    let waiting = async || waiters(locks, KEY).await == Some(count);
    eventually(DEADLINE, &format!("{count} in the queue"), waiting).await;
}

#[tokio::test]
async fn a_lost_lease_is_lost_for_the_present_member_alone() {
    let (_server, locks, elsewhere) = ground().await;
    let guard = locks.lock(KEY).await.unwrap();
    let (first, token) = (guard.held().clone(), guard.held().fencing_token());
    let (entered, has_entered) = oneshot::channel();
    let present = tokio::spawn(locks.with_lock(KEY, async move {
        entered.send(held(KEY).unwrap()).unwrap();
        pending::<()>().await;
    }));
    until_waiting(&locks, 1).await;
    let mut turns = Turns::default();
    turns.come(&locks, "next").await;
    guard.release().await.unwrap();
    let present_held = within(DEADLINE, "the member", has_entered).await.unwrap();
    assert_eq!(present_held.hold_id(), first.hold_id());
    assert!(elsewhere.force_release(KEY).await.unwrap());
    let ended = within(DEADLINE, "the loss", present).await.unwrap();
    assert!(matches!(
        ended,
        Err(LockError::Lost {
            reason: LostReason::Gone,
            ..
        })
    ));
    assert!(present_held.is_lost() && !first.is_lost());
    assert!(first.lost().now_or_never().is_none());
    // The next one does not inherit what is lost: it has asked, and has a hold of its own.
    let next = turns.all().await.remove(0);
    assert_ne!(next.hold, first.hold_id());
    assert!(next.token > present_held.fencing_token() && next.token > token);
}

#[tokio::test]
async fn another_process_has_the_lock_that_a_member_has_lost() {
    let (server, locks, elsewhere) = ground().await;
    let guard = locks.lock(KEY).await.unwrap();
    let (entered, has_entered) = oneshot::channel();
    let present = tokio::spawn(locks.with_lock(KEY, async move {
        entered.send(()).unwrap();
        pending::<()>().await;
    }));
    until_waiting(&locks, 1).await;
    guard.release().await.unwrap();
    within(DEADLINE, "the member", has_entered).await.unwrap();
    let mut turns = Turns::default();
    let mut other = turns.stay(elsewhere.lock(KEY), "elsewhere");
    until_queued(&server, 1).await;
    turns.request(locks.lock(KEY), "local");
    until_waiting(&locks, 1).await;
    assert!(elsewhere.force_release(KEY).await.unwrap());
    other.entered().await;
    let ended = within(DEADLINE, "the loss", present).await.unwrap();
    assert!(ended.unwrap_err().is_lost());
    // The one behind the loser has learnt of it, and stands in the queue.
    until_queued(&server, 1).await;
    other.leave();
    assert_eq!(turns.names().await, ["elsewhere", "local"]);
}

#[tokio::test]
async fn a_member_that_is_dropped_before_it_is_polled_gives_the_lock_back() {
    for next_is_local in [true, false] {
        let (server, locks, elsewhere) = ground().await;
        let guard = locks.lock(KEY).await.unwrap();
        let never = async { unreachable!("it was dropped") };
        let mut dropped = Box::pin(locks.with_lock(KEY, never).map(|_: Result<(), _>| ()));
        assert!((&mut dropped).now_or_never().is_none());
        let mut turns = Turns::default();
        let next = if next_is_local { &locks } else { &elsewhere };
        turns.come(next, "next").await;
        guard.release().await.unwrap();
        // It has been handed on, and no call graph is inside.
        assert_eq!(depths(&elsewhere, KEY).await, [1]);
        assert!(turns.so_far().is_empty());
        drop(dropped);
        assert_eq!(turns.names().await, ["next"]);
        let free = async || server.ask(&format!("EXISTS {KEY}")).await == "0";
        eventually(DEADLINE, "a free lock", free).await;
        assert_eq!(queued(&server).await, 0);
    }
}

/// What was begun under a former member's lock and is polled after its end is no part of the present
/// one, though both show the same hold.
#[tokio::test]
async fn what_a_former_member_has_left_behind_cannot_re_enter() {
    let (_server, locks, _) = ground().await;
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
        // It has entered its own lock, and is left there.
        let entered = async || {
            assert!((&mut inner).now_or_never().is_none());
            is_inside.try_recv().is_ok_and(|held| held)
        };
        eventually(DEADLINE, "the inner lock", entered).await;
        (hold, inner)
    });
    // The next member comes while the former one is inside.
    let mut former = Box::pin(former);
    let inside = async || {
        assert!((&mut former).now_or_never().is_none());
        depths(&locks, KEY).await == [1]
    };
    eventually(DEADLINE, "the former member", inside).await;
    let mut present = turns.stay(locks.lock(KEY), "present");
    until_waiting(&locks, 1).await;
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

/// The former member lives on in what it has returned.
#[tokio::test]
async fn a_guard_that_outlives_the_body_keeps_the_lock_from_the_next_member() {
    let (_server, locks, _) = ground().await;
    let nested = locks.with_lock(KEY, async { locks.lock(KEY).await.unwrap() });
    let nested = nested.await.unwrap();
    let mut turns = Turns::default();
    turns.come(&locks, "next").await;
    assert_eq!(depths(&locks, KEY).await, [1]);
    assert!(turns.so_far().is_empty());
    nested.release().await.unwrap();
    assert_eq!(turns.names().await, ["next"]);
}

#[tokio::test]
async fn a_member_may_be_dropped_after_any_poll() {
    let (server, locks, elsewhere) = ground().await;
    for (moment, next) in [(1, &locks), (1, &elsewhere), (2, &locks), (2, &elsewhere)] {
        for polls in 1.. {
            let guard = locks.lock(KEY).await.unwrap();
            let body = async {
                tokio::task::yield_now().await;
                locks
                    .with_lock(KEY, tokio::task::yield_now())
                    .await
                    .unwrap();
            };
            let member = released_at(moment, guard, locks.with_lock(KEY, body));
            let mut member = Box::pin(member);
            let completed = poll_times(polls, member.as_mut()).await.is_some();
            let mut turns = Turns::default();
            turns.request(next.lock(KEY), "next");
            drop(member);
            turns.all().await;
            let what = format!("a free lock: release at {moment}, drop at {polls}");
            let free = async || server.ask(&format!("EXISTS {KEY}")).await == "0";
            eventually(DEADLINE, &what, free).await;
            assert_eq!(queued(&server).await, 0, "{what}");
            if completed {
                break;
            }
        }
    }
}
