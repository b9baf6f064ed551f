//! What looks like a deadlock and is none: no caller has to give way. And what is one, and is not looked for.

use std::time::Duration;

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, within};
use reentry::{LockError, Locks};
use tokio::sync::{Barrier, Notify};
use tokio::time::{Instant, sleep, timeout};

const HEARTBEAT: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

/// One branch waits for what the other process holds, which waits for what the *other* branch holds. The owners
/// wait for each other, and the fields do not.
async fn branches(one: &Locks, other: &Locks, lasts: impl Future<Output = ()>) {
    let (all, inside) = (Barrier::new(3), Notify::new());
    let holds = async {
        let body = async {
            all.wait().await;
            lasts.await;
            inside.notify_one();
        };
        one.lock("held").run(body).await
    };
    let waits = async {
        all.wait().await;
        one.lock("wanted").wait(LONG).run(async {}).await
    };
    let branches = one.lock("outer").run(async { tokio::join!(holds, waits) });
    let elsewhere = async {
        let body = async {
            all.wait().await;
            other.lock("held").wait(LONG).run(async {}).await
        };
        other.lock("wanted").run_flat(body).await
    };
    let (branches, elsewhere) = tokio::join!(branches, elsewhere);
    let (holds, waits) = branches.unwrap();
    holds.and(waits).and(elsewhere).unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_branches_of_one_owner_are_no_ring() {
    let locks = Locks::in_memory();
    // Long enough for several walks.
    branches(&locks, &locks, sleep(40 * SECOND)).await;
}

#[tokio::test]
async fn two_branches_of_one_owner_are_no_ring_among_processes() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let before = server.commandstats().await;
    // Two first walks, of which each looks at holds and waits; and more later.
    let walked = async || {
        let calls = server.calls_since(&before).await;
        calls.get("hgetall").copied().unwrap_or(0) >= 12
    };
    let lasts = eventually(DEADLINE, "the walks", walked);
    within(
        2 * DEADLINE,
        "no caller gives way",
        branches(&one, &other, lasts),
    )
    .await;
}

/// A branch that closes a ring is dropped, and its call graph stays in the lock that the other one waits for.
/// Returns whether the other one was chosen, and when, counted from the ring.
async fn dropped_after(span: Duration) -> Option<Duration> {
    let locks = Locks::in_memory();
    let (both, begun) = (Barrier::new(2), Instant::now());
    let one = async {
        let body = async {
            both.wait().await;
            let branch = locks.lock("b").wait(LONG).run(async {});
            let dropped = timeout(span, branch).await;
            assert!(!matches!(dropped, Ok(Ok(()))));
            // It holds "a" for long, and waits for nothing.
            sleep(10 * SECOND).await;
            matches!(dropped, Ok(Err(_)))
        };
        locks.lock("a").run(body).await.unwrap()
    };
    let other = async {
        let body = async {
            both.wait().await;
            locks.lock("a").wait(LONG).run(async {}).await
        };
        let result = locks.lock("b").run_flat(body).await;
        (result, begun.elapsed())
    };
    let (was_victim, (result, elapsed)) = tokio::join!(one, other);
    match result {
        Ok(()) => None,
        Err(error) => {
            assert!(error.is_deadlock() && !was_victim, "{error:?}");
            Some(elapsed)
        }
    }
}

/// The publication and the first walk are after a quarter of a heartbeat, and the second walk is three quarters
/// after that. It believes what was published more than half a heartbeat after the first one.
#[tokio::test(start_paused = true)]
async fn a_branch_that_is_dropped_during_the_walks_makes_nobody_a_victim() {
    for quarter in 0..12 {
        let span = SECOND / 16 * quarter + SECOND / 32;
        assert_eq!(dropped_after(span).await, None, "{span:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_without_a_ring_goes_on() {
    let locks = Locks::in_memory();
    let holder = locks.lock("b").run(sleep(300 * SECOND));
    let waiter = async {
        sleep(SECOND).await;
        let inner = locks.lock("b").wait(LONG);
        locks.lock("a").run_flat(inner.run(async {})).await
    };
    let (holder, waiter) = tokio::join!(holder, waiter);
    holder.and(waiter).unwrap();
}

/// Two call graphs wait for each other through a semaphore, and a third one has its other permit: when that is given
/// back, both go on.
#[tokio::test(start_paused = true)]
async fn a_ring_through_one_of_two_permits_makes_nobody_a_victim() {
    let locks = Locks::in_memory();
    let all = Barrier::new(3);
    let holds_permit = async {
        let body = async {
            all.wait().await;
            locks.lock("lock").wait(LONG).run(async {}).await
        };
        locks.semaphore("permits", 2).run_flat(body).await
    };
    let holds_lock = async {
        let body = async {
            all.wait().await;
            let permit = locks.semaphore("permits", 2).wait(LONG);
            permit.run(async {}).await
        };
        locks.lock("lock").run_flat(body).await
    };
    let has_the_other = async {
        let body = async {
            all.wait().await;
            // Long enough for several walks.
            sleep(40 * SECOND).await;
        };
        locks.semaphore("permits", 2).run(body).await
    };
    let (one, other, third) = tokio::join!(holds_permit, holds_lock, has_the_other);
    one.and(other).and(third).unwrap();
}

/// A caller that does not look is not found either.
#[tokio::test(start_paused = true)]
async fn a_ring_is_not_found_if_one_of_it_does_not_look() {
    for (builder, request) in [
        (Some(false), None),
        (None, Some(false)),
        (Some(true), Some(false)),
    ] {
        let mut locks = Locks::builder().url("memory:");
        if let Some(detect) = builder {
            locks = locks.detect_deadlocks(detect);
        }
        let locks = locks.build().await.unwrap();
        let both = Barrier::new(2);
        let nest = async |outer: &str, inner: &str, detect: Option<bool>| {
            let mut inner = locks.lock(inner).wait(10 * SECOND);
            if let Some(detect) = detect {
                inner = inner.detect_deadlocks(detect);
            }
            let body = async {
                both.wait().await;
                inner.run(async {}).await
            };
            locks.lock(outer).run_flat(body).await
        };
        let begun = Instant::now();
        let (one, other) = tokio::join!(nest("a", "b", request), nest("b", "a", None));
        assert!(one.is_err() || other.is_err());
        for error in [one, other].into_iter().filter_map(Result::err) {
            assert!(matches!(error, LockError::Timeout { .. }), "{error:?}");
        }
        assert!(begun.elapsed() >= 10 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_looks_overrules_locks_that_do_not() {
    let builder = Locks::builder().url("memory:").detect_deadlocks(false);
    let locks = builder.build().await.unwrap();
    let both = Barrier::new(2);
    let nest = async |outer: &str, inner: &str| {
        let inner = locks.lock(inner).detect_deadlocks(true);
        let body = async {
            both.wait().await;
            inner.run(async {}).await
        };
        locks.lock(outer).run_flat(body).await
    };
    let (one, other) = tokio::join!(nest("a", "b"), nest("b", "a"));
    assert!(one.and(other).unwrap_err().is_deadlock());
}

/// A classic program publishes nothing: what it waits for is not known.
#[tokio::test]
async fn a_classic_holder_is_the_end_of_every_walk() {
    let server = RedisServer::start().await;
    let [locks] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let mut connection = server.connection().await;
    let classic = "4f0e1d2c-0000-4000-8000-000000000000:1";
    classic_lock(&mut connection, "b", classic, 60_000).await;
    let before = server.commandstats().await;
    let inner = locks.lock("b").wait(LONG);
    let waiting = tokio::spawn(locks.lock("a").run_flat(inner.run(async {})));
    // The holds of the key and the waits of its holder, twice.
    let walked = async || {
        let calls = server.calls_since(&before).await;
        calls.get("hgetall").copied().unwrap_or(0) >= 4
    };
    eventually(DEADLINE, "two walks", walked).await;
    assert!(!waiting.is_finished());
    let unlocked = classic_unlock(&mut connection, "b", classic, 60_000).await;
    assert_eq!(unlocked, Unlocked::Freed);
    let waited = within(DEADLINE, "its turn", waiting).await;
    waited.unwrap().unwrap();
}
