//! The search on the in-memory store: when it publishes and walks, what that costs, and what it leaves behind.

use crate::hold::held::Ids as _;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::join;
use tokio::runtime::Builder;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::store::{Asked, Watched};
use crate::base::timer::{sleep, sleep_until};
use crate::{__admin, LockError, LockGuard, Locks};

/// The heartbeat of the locks in use.
const HEARTBEAT: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);

/// Requests a lock inside another one.
async fn inside(outer: &LockGuard, locks: &Locks, inner: &str) -> Result<(), LockError> {
    let request = locks.lock(inner).wait(Duration::MAX);
    outer.scope(request.run(async {})).await?
}

/// Two acquisitions that each hold what the other one wants, as soon as both hold their first lock.
async fn cycle(locks: &Locks) -> [Result<(), LockError>; 2] {
    let both = Barrier::new(2);
    let nest = async |outer: &str, inner: &str| {
        let outer = locks.lock(outer).await?;
        both.wait().await;
        inside(&outer, locks, inner).await
    };
    let (one, other) = join!(nest("a", "b"), nest("b", "a"));
    [one, other]
}

fn victims(results: &[Result<(), LockError>]) -> usize {
    let errors = results.iter().filter_map(|result| result.as_ref().err());
    errors.filter(|error| error.is_deadlock()).count()
}

/// The number of requests in this time about a wait inside a lock.
async fn asked_within(span: Duration) -> Result<Asked, LockError> {
    let store = Watched::new();
    let locks = store.locks();
    let (outer, wanted) = (locks.lock("a").await?, locks.lock("b").await?);
    let mut waiting = Box::pin(inside(&outer, &locks, "b"));
    assert!((&mut waiting).now_or_never().is_none());
    tokio::select! {
        _ = &mut waiting => unreachable!("the lock is held"),
        () = sleep(span) => {}
    }
    let asked = store.asked();
    let hold = outer.held().hold_id();
    assert_eq!(store.has_record(hold), asked.changes > 0);
    wanted.release().await?;
    waiting.await?;
    // The record is removed soon.
    sleep(HEARTBEAT / 32).await;
    assert!(!store.has_record(hold));
    let changes = asked.changes + u32::from(asked.changes > 0);
    assert_eq!(store.asked(), Asked { changes, ..asked });
    Ok(asked)
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_published_every_quarter_heartbeat_and_walks_rarely() -> Result<(), LockError> {
    let nothing = Asked::default();
    for (quarters, changes, walks) in [
        (0, 0, 0),
        // The first publication is rejected, and returns the time.
        (1, 2, 1),
        (2, 3, 1),
        (7, 8, 1),
        (8, 9, 2),
        (15, 16, 2),
        (16, 17, 3),
        (32, 33, 4),
        (400, 401, 7),
    ] {
        let span = HEARTBEAT / 4 * quarters + HEARTBEAT / 8;
        let expected = Asked {
            changes,
            holds: walks,
            waits: walks,
            ..nothing
        };
        assert_eq!(asked_within(span).await?, expected, "{quarters} quarters");
    }
    Ok(())
}

/// Each of them is a separate process, which another process that has a lock has started.
#[tokio::test(start_paused = true)]
async fn processes_inside_of_locks_of_others_are_a_cycle() -> Result<(), LockError> {
    let store = Watched::new();
    let starter = store.locks();
    let (a, b) = (starter.lock("a").await?, starter.lock("b").await?);
    let started = async |outer: LockGuard, wanted: &str| {
        let (hold, key) = (outer.held().hold_id(), outer.held().key());
        let locks = __admin::with_outer_holds(Locks::builder("memory:"), [(hold, key)]);
        let ended = store.locks_of(locks).lock(wanted).wait(Duration::MAX).await;
        outer.release().await?;
        ended.map(drop)
    };
    let since = Instant::now();
    let (one, other) = join!(started(a, "b"), started(b, "a"));
    assert_eq!(victims(&[one, other]), 1);
    assert!(since.elapsed() <= 2 * HEARTBEAT, "{:?}", since.elapsed());
    Ok(())
}

/// Several waits of a cycle may find it at the same time.
#[tokio::test(start_paused = true)]
async fn the_wait_that_the_store_has_chosen_gives_way() -> Result<(), LockError> {
    for chosen in [0, 1] {
        let store = Watched::new();
        let locks = store.locks();
        let guards = [locks.lock("a").await?, locks.lock("b").await?];
        let holds = [0, 1].map(|at| guards[at].held().hold_id());
        let nest = async |outer: LockGuard, wanted: &str| {
            let ended = inside(&outer, &locks, wanted).await;
            outer.release().await?;
            ended
        };
        let [a, b] = guards;
        let mut both = Box::pin(async { join!(nest(a, "b"), nest(b, "a")) });
        tokio::select! {
            ended = &mut both => panic!("{ended:?} before a second walk"),
            () = sleep(HEARTBEAT / 2) => {}
        }
        store.choose_victim(holds, chosen);
        let (one, other) = both.await;
        let gave_way = [one, other].map(|ended| ended.is_err_and(|error| error.is_deadlock()));
        assert_eq!(gave_way, [chosen == 0, chosen == 1]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn only_nested_waits_are_published() -> Result<(), LockError> {
    let store = Watched::new();
    let locks = store.locks();
    let (outer, wanted) = (locks.lock("a").await?, locks.lock("b").await?);
    let wait = 100 * HEARTBEAT;
    // A guard is not a scope.
    let alone = locks.lock("b").wait(wait).run(async {}).await;
    let refused = outer.scope(locks.lock("b").no_wait().run(async {})).await?;
    for result in [alone, refused] {
        assert!(result.is_err_and(|error| error.is_busy()));
    }
    // This is inside a lock of another `Locks`.
    let elsewhere = Locks::in_memory();
    let request = locks.lock("b").wait(wait);
    let result = elsewhere.with_lock("a", request.run(async {})).await?;
    assert!(result.is_err_and(|error| error.is_busy()));
    assert_eq!(store.asked(), Asked::default());
    wanted.release().await
}

#[tokio::test(start_paused = true)]
async fn beyond_256_each_wait_is_published_half_as_often() -> Result<(), LockError> {
    for (count, each) in [(256, 40), (257, 20)] {
        let store = Watched::new();
        let locks = store.locks();
        let wanted = locks.lock("b").await?;
        let mut waiting = JoinSet::new();
        for at in 0..count {
            let locks = locks.clone();
            let outer = locks.lock(format!("a:{at}")).await?;
            waiting.spawn(async move { inside(&outer, &locks, "b").await });
        }
        // All of them have published by now.
        sleep(HEARTBEAT / 2 * 3 + MOMENT).await;
        let before = store.asked();
        sleep(HEARTBEAT * 10).await;
        let asked = store.asked();
        assert_eq!(asked.changes - before.changes, count * each);
        assert_eq!(
            (asked.holds - before.holds, asked.waits - before.waits),
            (3 * count, 3 * count)
        );
        wanted.release().await?;
        while let Some(waited) = waiting.join_next().await {
            waited.expect("no panic")?;
        }
    }
    Ok(())
}

/// Times of two servers are not compared, so the walk is repeated.
#[tokio::test(start_paused = true)]
async fn a_walk_over_two_connections_confirms_nothing() {
    let store = Watched::new();
    let locks = store.locks();
    let begun = Instant::now();
    let reconnect = async {
        // This is between the walks.
        sleep(HEARTBEAT / 2).await;
        store.reconnect();
        sleep(HEARTBEAT).await;
        assert_eq!(store.asked().claimed, 0);
    };
    let (results, ()) = join!(cycle(&locks), reconnect);
    assert_eq!(victims(&results), 1);
    assert!((2 * HEARTBEAT..4 * HEARTBEAT).contains(&begun.elapsed()));
}

/// The chain is that of the poll. A wait that is moved out of a body is no longer enclosed by its lock.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_moved_out_of_a_body_takes_its_record_back() -> Result<(), LockError> {
    let store = Watched::new();
    let locks = store.locks();
    let (outer, wanted) = (locks.lock("a").await?, locks.lock("b").await?);
    let hold = outer.held().hold_id();
    let mut waiting = Box::pin(locks.lock("b").wait(Duration::MAX).acquire());
    let polled = async {
        tokio::select! {
            _ = &mut waiting => unreachable!("the lock is held"),
            () = sleep(HEARTBEAT) => {}
        }
    };
    outer.scope(polled).await?;
    assert!(store.has_record(hold));
    let release = async {
        sleep(HEARTBEAT / 2).await;
        assert!(!store.has_record(hold));
        wanted.release().await
    };
    let (waited, released) = join!(waiting, release);
    waited?.release().await?;
    released?;
    outer.release().await
}

/// The requests of one runtime are not made by another one, which may end.
#[test]
fn a_runtime_that_ends_keeps_no_cycle_from_being_found() {
    let runtime = || {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().start_paused(true).build()
    };
    let (first, second) = (runtime().unwrap(), runtime().unwrap());
    let locks = Watched::new().locks();
    let outer = first.block_on(locks.lock("c").acquire()).unwrap();
    let wanted = second.block_on(locks.lock("d").acquire()).unwrap();
    let mut waiting = Box::pin(inside(&outer, &locks, "d"));
    // The runtime ends in the turn in which the wait is published.
    first.block_on(async {
        assert!((&mut waiting).now_or_never().is_none());
        sleep(HEARTBEAT / 4).await;
        assert!((&mut waiting).now_or_never().is_none());
    });
    drop(first);
    let found = second.block_on(async {
        let cycle = cycle(&locks).await;
        wanted.release().await.unwrap();
        waiting.await.unwrap();
        cycle
    });
    assert_eq!(victims(&found), 1);
}

/// Polls a future until it is ready, or was polled this number of times. Time passes between two polls.
async fn poll_times(polls: u32, mut future: Pin<&mut impl Future>) -> bool {
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if polled {
            return true;
        }
        sleep(HEARTBEAT / 40).await;
    }
    false
}

/// P7 applies whatever the wait was doing when it was dropped.
#[tokio::test(start_paused = true)]
async fn a_wait_may_be_dropped_after_any_poll() -> Result<(), LockError> {
    const DELAY: Duration = Duration::from_millis(40);
    for cycles in [false, true] {
        for polls in 1.. {
            let store = Watched::new();
            store.set_delay(DELAY);
            let locks = store.locks();
            let outer = locks.lock("a").await?;
            let wanted = locks.lock("b").await?;
            let hold = outer.held().hold_id();
            let other = tokio::spawn({
                let locks = locks.clone();
                async move {
                    if cycles {
                        inside(&wanted, &locks, "a").await
                    } else {
                        sleep_until(Instant::now() + 3 * HEARTBEAT).await;
                        wanted.release().await
                    }
                }
            });
            let mut waiting = Box::pin(inside(&outer, &locks, "b"));
            let is_over = poll_times(polls, waiting.as_mut()).await;
            drop(waiting);
            // This covers the requests in flight, and the removals that follow them.
            sleep(3 * DELAY).await;
            assert!(!store.has_record(hold), "{polls} polls");
            outer.release().await?;
            let other = other.await.expect("no panic");
            assert!(other.is_ok() || cycles && other.is_err_and(|error| error.is_deadlock()));
            locks.lock("b").no_wait().run(async {}).await?;
            if is_over {
                break;
            }
        }
    }
    Ok(())
}
