//! P7: dropping a future of this crate after any poll leaves no lock, no watchdog, no place in a queue
//! and no waiter asleep. The same in memory, with faults: `sweep` of the simulation.

use crate::support::sweep::{Ground, KEY, poll_times, released_at};
use crate::support::{DEADLINE, eventually, within};
use reentry::{FutureExt, LockError, LockGuard, Locks, Wake};
use tokio::task::yield_now;

/// Takes three polls.
async fn body() {
    yield_now().await;
    yield_now().await;
}

#[tokio::test]
async fn with_lock_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let polls = ground.sweep(|| ground.locks.with_lock(KEY, body())).await;
    assert!(polls >= 3, "the body alone takes three polls, not {polls}");
}

#[tokio::test]
async fn with_lock_flat_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let body = || async {
        body().await;
        Ok::<_, LockError>(())
    };
    ground
        .sweep(|| ground.locks.with_lock_flat(KEY, body()))
        .await;
}

#[tokio::test]
async fn waiting_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    // The holder releases when the waiter has asked, or when it has learnt that it must wait.
    for moment in 1..=2 {
        let waiter = || ground.locks.with_lock(KEY, body());
        ground
            .sweep_held(|holder| released_at(moment, holder, waiter()))
            .await;
    }
}

fn nested(locks: &Locks) -> impl Future<Output = ()> + Send + use<> {
    let inner = locks.with_lock(KEY, body());
    let outer = locks.with_lock(KEY, async {
        yield_now().await;
        inner.await.unwrap();
        yield_now().await;
    });
    async { outer.await.unwrap() }
}

#[tokio::test]
async fn an_outer_body_may_be_dropped_after_any_poll_of_an_inner_one() {
    let ground = Ground::on_redis().await;
    let polls = ground.sweep(|| nested(&ground.locks)).await;
    assert!(polls >= 5, "the bodies alone take five polls, not {polls}");
}

#[tokio::test]
async fn branches_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    let branches = || async {
        let ((), other) = tokio::join!(nested(locks), locks.with_lock(KEY, body()));
        other.unwrap();
    };
    ground.sweep(|| locks.with_lock(KEY, branches())).await;
}

#[tokio::test]
async fn an_inner_body_may_be_dropped_after_any_poll_and_the_outer_goes_on() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    for polls in 1.. {
        let outer = locks.with_lock(KEY, async {
            let completed = poll_times(polls, nested(locks)).await.is_some();
            let right = async || ground.depth().await == 1;
            eventually(DEADLINE, "the depth is that of the outer body", right).await;
            // What was left unfinished does not disturb the next one.
            let again = locks.with_lock(KEY, async { ground.depth().await });
            assert_eq!(again.await.unwrap(), 2);
            completed
        });
        let completed = outer.await.unwrap();
        ground.settle(&format!("inner poll {polls}")).await;
        if completed {
            break;
        }
    }
}

#[tokio::test]
async fn a_guard_may_be_dropped_after_any_poll_of_its_life() {
    let ground = Ground::on_redis().await;
    let life = || async {
        let guard = ground.locks.lock(KEY).await.unwrap();
        yield_now().await;
        guard.scope(nested(&ground.locks)).await.unwrap();
        yield_now().await;
        guard.release().await.unwrap();
    };
    ground.sweep(life).await;
}

/// The task goes on when its parent was dropped, and releases the lock.
#[tokio::test]
async fn a_body_that_spawns_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    let awaited = || async { reentry::spawn(nested(locks)).await.unwrap() };
    ground.sweep(|| locks.with_lock(KEY, awaited())).await;
    let left_behind = || async { drop(reentry::spawn(nested(locks))) };
    ground.sweep(|| locks.with_lock(KEY, left_behind())).await;
    // A child that is dropped together with its parent, or when that has gone.
    let polled_by_it = || async { nested(locks).in_current_call().await.unwrap() };
    ground.sweep(|| locks.with_lock(KEY, polled_by_it())).await;
    let polled_after_it = || async {
        let child = async { (nested(locks).in_current_call(),) };
        let (child,) = locks.with_lock(KEY, child).await.unwrap();
        child.await.unwrap();
    };
    ground.sweep(polled_after_it).await;
}

#[tokio::test]
async fn readers_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    let read = || locks.with_read_lock(KEY, body());
    let polls = ground.sweep(read).await;
    assert!(polls >= 3, "the body alone takes three polls, not {polls}");
    let together = || async {
        let nested = locks.with_read_lock(KEY, read());
        let write = locks.with_lock(KEY, read());
        let (one, nested, write) = tokio::join!(read(), nested, write);
        one.and(nested).and(write).unwrap().unwrap();
    };
    ground.sweep(together).await;
    // Behind a writer, which releases when they have asked, or when they have learnt that they must wait.
    for moment in 1..=2 {
        ground
            .sweep_held(|holder| released_at(moment, holder, together()))
            .await;
    }
}

/// The other one reads for as long as the waiters do.
#[tokio::test]
async fn a_reader_beside_others_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    for shares in [true, false] {
        let request = || match shares {
            true => locks.lock(KEY).shared(),
            false => locks.lock(KEY),
        };
        let beside = || async {
            let other = locks.lock(KEY).shared().await.unwrap();
            let waiter = request().run(body());
            released_at(2, other, waiter).await.unwrap();
        };
        ground.sweep(beside).await;
    }
}

#[tokio::test]
async fn a_downgrade_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let locks = &ground.locks;
    let downgrading = || async {
        let guard = locks.lock(KEY).await.unwrap();
        yield_now().await;
        guard.held().downgrade().await.unwrap();
        guard
            .scope(locks.with_read_lock(KEY, body()))
            .await
            .unwrap()
            .unwrap();
        guard.release().await.unwrap();
    };
    ground.sweep(downgrading).await;
    // Others wait already; the downgrade lets the reader among them in.
    let watched = || async {
        let guard = locks.lock(KEY).await.unwrap();
        let downgrade = async {
            yield_now().await;
            guard.held().downgrade().await.unwrap();
            yield_now().await;
            guard.release().await.unwrap();
        };
        let read = locks.with_read_lock(KEY, body());
        let ((), read) = tokio::join!(downgrade, read);
        read.unwrap();
    };
    ground.sweep(watched).await;
}

#[tokio::test]
async fn try_acquire_may_be_dropped_after_any_poll() {
    let ground = Ground::on_redis().await;
    let attempt = async || ground.locks.lock(KEY).try_acquire().await.unwrap();
    let succeeds = || async {
        let guard = attempt().await.unwrap();
        guard.release().await.unwrap();
    };
    ground.sweep(succeeds).await;
    let fails = |holder: LockGuard| async {
        assert!(attempt().await.is_none());
        holder.release().await.unwrap();
    };
    ground.sweep_held(fails).await;
}

#[tokio::test]
async fn a_waiter_that_gives_up_its_place_lets_the_next_one_in() {
    let ground = Ground::on_redis().await;
    let holder = ground.locks.lock(KEY).await.unwrap();
    let first = tokio::spawn(ground.locks.with_lock(KEY, body()));
    ground.until_waiting(1).await;
    let second = tokio::spawn(ground.locks.with_lock(KEY, body()));
    ground.until_waiting(2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    holder.release().await.unwrap();
    within(DEADLINE, "the second enters", second)
        .await
        .unwrap()
        .unwrap();
    ground.settle("a waiter gave up").await;
}

#[tokio::test]
async fn a_waiter_that_gives_up_between_two_questions_lets_the_next_one_ask_at_once() {
    let ground = Ground::on_redis().await;
    let rarely = Wake::Poll {
        interval: 3 * DEADLINE,
        attempts: None,
    };
    let ground = ground.waking(rarely).await;
    let holder = ground.locks.lock(KEY).await.unwrap();
    let first = tokio::spawn(ground.locks.with_lock(KEY, body()));
    ground.until_waiting(1).await;
    let second = tokio::spawn(ground.locks.with_lock(KEY, body()));
    ground.until_waiting(2).await;
    // The lock becomes free, and no message tells this process.
    assert!(ground.locks.force_release(KEY).await.unwrap());
    first.abort();
    let entered = within(DEADLINE, "the second enters", second).await;
    entered.unwrap().unwrap();
    assert!(holder.release().await.is_err_and(|error| error.is_lost()));
    ground.settle("a waiter gave up between two requests").await;
}

#[tokio::test]
async fn a_waiter_dropped_after_the_lock_was_given_to_it_gives_it_back() {
    let ground = Ground::on_redis().await;
    let holder = ground.locks.lock(KEY).await.unwrap();
    let mut first = Box::pin(ground.locks.with_lock(KEY, body()));
    let mut second = Box::pin(ground.locks.with_lock(KEY, body()));
    // The first one waits behind the holder of its own process.
    assert!(poll_times(1, &mut first).await.is_none());
    assert!(poll_times(1, &mut second).await.is_none());
    ground.until_waiting(2).await;
    holder.release().await.unwrap();
    // Its driver takes the lock for the first waiter, which is not polled.
    let given = async || ground.waiters().await == Some(1);
    eventually(DEADLINE, "the lock is given to the first", given).await;
    drop(first);
    within(DEADLINE, "the second enters", second).await.unwrap();
    ground.settle("a grant was never looked at").await;
}

#[tokio::test]
async fn a_thousand_dropped_waiters_leave_nothing() {
    let ground = Ground::on_redis().await;
    let holder = ground.locks.lock(KEY).await.unwrap();
    let waiters: Vec<_> = (0..1000)
        .map(|_| tokio::spawn(ground.locks.with_lock(KEY, body())))
        .collect();
    ground.until_waiting(1000).await;
    // From the front, from the back and from the middle.
    let (front, back) = waiters.split_at(500);
    for (one, other) in front.iter().zip(back.iter().rev()) {
        one.abort();
        other.abort();
    }
    for waiter in waiters {
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    holder.release().await.unwrap();
    ground.settle("a thousand gave up").await;
}
