//! P7 and P9 for a waiter that is dropped, whatever is under way for it: the lock goes to the next in its
//! process, else to the next process, and nothing is left of the one that has gone.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its trio gives way"
)]

use std::time::Duration;

use crate::support::rig::{EVALSHA, KEY};
use crate::support::stats::Calls;
use crate::support::sweep::poll_times;
use crate::support::trio::{Trio, released_at};
use crate::support::{
    Action, Cut, DEADLINE, Direction::ToServer, eventually, until_queued, waiters, within,
};
use futures_util::FutureExt;
use reentry::Locks;
use tokio::task::yield_now;

/// The waiter that leaves. It never gets in.
fn leaver(locks: &Locks) -> std::pin::Pin<Box<impl Future<Output = ()> + use<>>> {
    let waiting = locks.with_lock(KEY, async { unreachable!("it has left") });
    Box::pin(waiting.map(|_: Result<(), _>| ()))
}

/// Polls the waiter by hand until it stands in the queue.
async fn until_queued_here(
    waiter: &mut (impl Future<Output = ()> + Unpin),
    locks: &Locks,
    count: usize,
) {
    let waits = async || {
        assert!((&mut *waiter).now_or_never().is_none());
        waiters(locks, KEY).await == Some(count)
    };
    eventually(DEADLINE, "it stands in the queue", waits).await;
}

/// Polls the waiter by hand until its process stands in the queue.
async fn until_asked(waiter: &mut (impl Future<Output = ()> + Unpin), trio: &Trio) {
    let stands = async || {
        assert!((&mut *waiter).now_or_never().is_none());
        crate::support::queued(&trio.server).await == 1
    };
    eventually(DEADLINE, "it stands in the queue", stands).await;
}

#[tokio::test]
async fn the_only_waiter_of_a_process_takes_its_place_with_it() {
    let mut trio = Trio::start().await;
    let guard = trio.holder.lock(KEY).await.unwrap();
    let mut leaver = leaver(&trio.leaving);
    until_asked(&mut leaver, &trio).await;
    drop(leaver);
    until_queued(&trio.server, 0).await;
    guard.release().await.unwrap();
    trio.settle("the only one has left").await;
}

/// It is not at the end of the queue that the process stands afterwards.
#[tokio::test]
async fn the_first_waiter_leaves_the_place_of_its_process_to_the_second() {
    let mut trio = Trio::start().await;
    let guard = trio.holder.lock(KEY).await.unwrap();
    let mut leaver = leaver(&trio.leaving);
    until_asked(&mut leaver, &trio).await;
    trio.next_one(false).await;
    until_queued(&trio.server, 2).await;
    trio.next_one(true).await;
    drop(leaver);
    guard.release().await.unwrap();
    assert_eq!(trio.turns.names().await, ["local", "elsewhere"]);
    trio.settle("the first has left").await;
}

/// It asks at a pace of its own, which depends on its TTL, and keeps the place alive with that.
#[tokio::test]
async fn the_second_waiter_does_not_wait_for_the_heartbeat_of_the_first() {
    let mut trio = Trio::start().await;
    let guard = trio.holder.lock(KEY).await.unwrap();
    let before = trio.server.commandstats().await;
    let asked = async |before: &Calls, times: u64| {
        let calls = trio.server.calls_since(before).await;
        calls.get("evalsha").is_some_and(|&calls| calls >= times)
    };
    let mut leaver = leaver(&trio.leaving);
    // When it came, and when its inbox was open.
    let twice = async || {
        assert!((&mut leaver).now_or_never().is_none());
        asked(&before, 2).await
    };
    eventually(DEADLINE, "it has asked twice", twice).await;
    let ttl = Duration::from_secs(3);
    trio.turns
        .request(trio.leaving.lock(KEY).ttl(ttl), "second");
    until_queued_here(&mut leaver, &trio.leaving, 2).await;
    let before = trio.server.commandstats().await;
    drop(leaver);
    // The end of the first, and twice the second.
    let for_itself = async || asked(&before, 3).await;
    eventually(DEADLINE / 2, "it asks for itself", for_itself).await;
    guard.release().await.unwrap();
    within(DEADLINE / 2, "its turn", trio.turns.all()).await;
    trio.settle("the first has left").await;
}

#[tokio::test]
async fn who_stands_behind_the_first_leaves_without_a_word_to_the_store() {
    let mut trio = Trio::start().await;
    let guard = trio.holder.lock(KEY).await.unwrap();
    trio.next_one(true).await;
    // Its process has asked when it came, and when its inbox was open.
    let open = async || trio.server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "the inbox is open", open).await;
    let mut leaver = leaver(&trio.leaving);
    until_queued_here(&mut leaver, &trio.leaving, 2).await;
    trio.next_one(true).await;
    let calls = trio.server.commandstats().await;
    drop(leaver);
    assert_eq!(waiters(&trio.holder, KEY).await, Some(0));
    let calls = trio.server.calls_since(&calls).await;
    assert!(
        calls.get("evalsha").is_some_and(|&calls| calls <= 2),
        "{calls:?}"
    );
    assert!(!calls.contains_key("zrem"), "{calls:?}");
    guard.release().await.unwrap();
    assert_eq!(trio.turns.names().await, ["local", "local"]);
    trio.settle("one in the middle has left").await;
}

#[tokio::test]
async fn a_waiter_may_leave_while_its_question_is_on_its_way() {
    let mut trio = Trio::start().await;
    for (held, local) in [(true, true), (true, false), (false, true), (false, false)] {
        let what = format!("held {held}, local {local}");
        let guard = trio.holder.lock(KEY).await.unwrap();
        let mut guard = Some(guard);
        if !held {
            guard.take().unwrap().release().await.unwrap();
        }
        trio.proxy.on_next(ToServer, EVALSHA, Action::Hold);
        let mut leaver = leaver(&trio.leaving);
        let hits = trio.proxy.hits();
        let asked = async || {
            assert!((&mut leaver).now_or_never().is_none());
            trio.proxy.hits() > hits
        };
        eventually(DEADLINE, "it asks", asked).await;
        trio.proxy.wait_until_held(ToServer, EVALSHA).await;
        let locks = if local { &trio.leaving } else { &trio.next };
        trio.turns.request(locks.lock(KEY), "next");
        drop(leaver);
        trio.proxy.release(ToServer);
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        trio.settle(&what).await;
    }
}

#[tokio::test]
async fn a_waiter_may_leave_when_another_process_has_moved_the_lock_to_it() {
    let mut trio = Trio::start().await;
    for (local, elsewhere) in [(true, false), (false, true), (true, true), (false, false)] {
        let guard = trio.holder.lock(KEY).await.unwrap();
        let first = guard.held().hold_id().to_string();
        let mut leaver = leaver(&trio.leaving);
        until_asked(&mut leaver, &trio).await;
        if elsewhere {
            trio.next_one(false).await;
        }
        if local {
            trio.next_one(true).await;
        }
        let before = trio.turns.so_far().len();
        guard.release().await.unwrap();
        let info = trio.holder.inspect(KEY).await.unwrap().unwrap();
        assert_ne!(info.holders[0].hold_id, first, "the lock has moved");
        drop(leaver);
        let names = trio.turns.names().await.split_off(before);
        let expected = [(local, "local"), (elsewhere, "elsewhere")];
        let expected = expected.into_iter().filter(|&(waits, _)| waits);
        assert_eq!(names, expected.map(|(_, name)| name).collect::<Vec<_>>());
        trio.settle("a grant was never looked at").await;
    }
}

/// The request that hands the lock over is held, or lost, or executed without an answer.
#[tokio::test]
async fn a_waiter_may_leave_while_a_hand_off_to_it_is_on_its_way() {
    let mut trio = Trio::start().await;
    let faults = [
        Action::Hold,
        Action::CutInstead(Cut::Reset),
        Action::CutAtAnswer(Cut::Reset),
        Action::CutClientAfter(Cut::Fin),
    ];
    for action in faults {
        for local in [true, false] {
            let what = format!("{action:?}, local {local}");
            let guard = trio.leaving.lock(KEY).await.unwrap();
            let mut leaver = leaver(&trio.leaving);
            until_queued_here(&mut leaver, &trio.leaving, 1).await;
            trio.next_one(local).await;
            trio.proxy.on_next(ToServer, EVALSHA, action);
            let hits = trio.proxy.hits();
            let release = tokio::spawn(guard.release());
            trio.proxy.wait_for_hits(hits + 1).await;
            if action == Action::Hold {
                trio.proxy.wait_until_held(ToServer, EVALSHA).await;
            }
            drop(leaver);
            trio.proxy.release(ToServer);
            let released = within(DEADLINE, &what, release).await;
            released.unwrap().unwrap();
            trio.settle(&what).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_behind_another_process_may_be_dropped_after_any_poll() {
    let mut trio = Trio::start().await;
    for (moment, local) in [(1, true), (1, false), (2, true), (2, false)] {
        for polls in 1.. {
            let what = format!("release at {moment}, drop at {polls}, next is local: {local}");
            let guard = trio.holder.lock(KEY).await.unwrap();
            let body = async {
                yield_now().await;
                yield_now().await;
            };
            let waiter = trio.leaving.with_lock(KEY, body);
            let mut waiter = Box::pin(released_at(moment, guard, waiter));
            let completed = poll_times(polls, waiter.as_mut()).await.is_some();
            let locks = if local { &trio.leaving } else { &trio.next };
            trio.turns.request(locks.lock(KEY), "next");
            drop(waiter);
            trio.settle(&what).await;
            if completed {
                break;
            }
        }
    }
}
