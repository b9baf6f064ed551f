//! Call graphs that wait for each other in a ring: one of them gives way, and the others get their locks.

use std::time::Duration;

use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, waiters, within};
use futures_util::future::join_all;
use reentry::{HandOff, LockError, Locks, LocksBuilder, current_owner};
use tokio::sync::Barrier;
use tokio::time::Instant;

/// Of the locks on a server: short, so that a test is.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Longer than a test.
const LONG: Duration = Duration::from_secs(600);

/// Each takes its own key, and then, inside, that of the next one.
async fn ring(members: &[Locks]) -> Vec<Result<(), LockError>> {
    let key = |at: usize| format!("key:{}", at % members.len());
    let all_hold = Barrier::new(members.len());
    let nest = |(at, locks): (usize, &Locks)| {
        let (outer, inner) = (locks.lock(key(at)), locks.lock(key(at + 1)).wait(LONG));
        let body = async {
            all_hold.wait().await;
            inner.run(async {}).await
        };
        outer.run_flat(body)
    };
    join_all(members.iter().enumerate().map(nest)).await
}

/// The only one that had to give way.
pub(super) fn victim(results: Vec<Result<(), LockError>>) -> LockError {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

/// The keys of a cycle: what each holds and waits for.
pub(super) fn keys(error: &LockError) -> Vec<(String, String)> {
    let LockError::Deadlock { cycle, .. } = error else {
        panic!("{error:?}");
    };
    let keys = cycle.iter();
    keys.map(|blocked| (blocked.holds.clone(), blocked.waits_for.clone()))
        .collect()
}

/// Each holds what the one before it waits for, and the first one waits for the key of the error.
pub(super) fn is_ring(error: &LockError, members: usize) -> bool {
    let keys = keys(error);
    let next = keys.iter().cycle().skip(1);
    let closes = keys.iter().zip(next).all(|(one, next)| one.1 == next.0);
    closes && keys.len() == members && error.key() == Some(&*keys[0].1)
}

#[tokio::test(start_paused = true)]
async fn a_ring_in_memory_ends_within_two_heartbeats() {
    for members in [2, 3, 8] {
        let locks = Locks::in_memory();
        let begun = Instant::now();
        let error = victim(ring(&vec![locks.clone(); members]).await);
        assert!(is_ring(&error, members), "{error}");
        // By default a heartbeat is a second.
        assert!(begun.elapsed() < 2 * Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_is_that_of_the_locks() {
    for heartbeat in [Duration::from_millis(10), Duration::from_secs(9)] {
        let builder = Locks::builder().url("memory:").heartbeat(heartbeat);
        let locks = builder.build().await.unwrap();
        let begun = Instant::now();
        victim(ring(&[locks.clone(), locks]).await);
        assert!(begun.elapsed() < 2 * heartbeat + Duration::from_millis(10));
    }
}

async fn ring_of_processes(builder: LocksBuilder) {
    let [one, other, third]: [Locks; 3] = processes(&builder).await;
    let all = [one, other, third];
    for members in [2, 3, 12] {
        let members: Vec<_> = all.iter().cycle().take(members).cloned().collect();
        let ring = ring(&members);
        let error = victim(within(DEADLINE, "one gives way", ring).await);
        assert!(is_ring(&error, members.len()), "{error}");
    }
}

#[tokio::test]
async fn a_ring_of_processes_ends_with_one_victim() {
    let server = RedisServer::start().await;
    ring_of_processes(patient(&server).heartbeat(HEARTBEAT)).await;
    // Nothing is left, but for the names of the victims, for four heartbeats.
    let is_clean = async || server.ask("DBSIZE").await == "0";
    eventually(DEADLINE, "no key is left", is_clean).await;
}

/// Each heartbeat goes by the TTL of its process.
#[tokio::test]
async fn processes_with_other_heartbeats_find_each_other() {
    let server = RedisServer::start().await;
    let [slow] = processes(&patient(&server).heartbeat(4 * HEARTBEAT)).await;
    let [fast] = processes(&patient(&server).heartbeat(HEARTBEAT / 2)).await;
    let error = victim(within(DEADLINE, "one gives way", ring(&[slow, fast])).await);
    assert!(is_ring(&error, 2), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_error_says_who_holds_what_and_waits_for_what() {
    let builder = Locks::builder().url("memory:").prefix("app:");
    let locks = builder.build().await.unwrap();
    let error = victim(ring(&[locks.clone(), locks]).await);
    assert!(error.is_deadlock() && !error.is_contended() && !error.is_lost());
    let LockError::Deadlock { key, cycle, .. } = &error else {
        panic!("{error:?}");
    };
    let other = if key == "key:0" { "key:1" } else { "key:0" };
    let [one, next] = [cycle[0].owner, cycle[1].owner];
    assert_ne!(one, next);
    let expected = format!(
        "gave up waiting for `{key}` because of a deadlock: {one} holds `{other}` and waits for `{key}`; \
         {next} holds `{key}` and waits for `{other}`"
    );
    assert_eq!(error.to_string(), expected);
}

/// A member of the ring that another caller of its process stands before.
async fn behind_another_waiter(here: &Locks, there: &Locks) {
    let (both, waits) = (Barrier::new(2), Barrier::new(2));
    let behind = async {
        let body = async {
            both.wait().await;
            waits.wait().await;
            here.lock("b").wait(LONG).run(async {}).await
        };
        here.lock("a").run_flat(body).await
    };
    let before = async {
        waits.wait().await;
        Ok(())
    };
    let holder = async {
        let body = async {
            both.wait().await;
            // It stands first, and holds nothing.
            let first = tokio::spawn(here.lock("b").wait(LONG).run(async {}));
            let stands = async || waiters(here, "b").await == Some(1);
            eventually(DEADLINE, "the first waiter", stands).await;
            let inner = there.lock("a").wait(LONG).run(async {});
            let (inner, waiting) = tokio::join!(inner, before);
            (inner.and(waiting), first)
        };
        let (result, first) = there.lock("b").run(body).await.unwrap();
        first.await.unwrap().unwrap();
        result
    };
    let (one, other) = tokio::join!(behind, holder);
    let error = victim(vec![one, other]);
    assert!(is_ring(&error, 2), "{error}");
}

#[tokio::test]
async fn a_waiter_behind_another_one_of_its_process_closes_a_ring() {
    let locks = Locks::in_memory();
    within(DEADLINE, "in memory", behind_another_waiter(&locks, &locks)).await;
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    within(DEADLINE, "a ring", behind_another_waiter(&one, &other)).await;
}

/// The field that a later call graph of a cohort goes on under is that of the first one.
#[tokio::test]
async fn a_ring_through_a_lock_that_was_handed_on_in_memory_is_found() {
    let server = RedisServer::start().await;
    let builder = patient(&server).heartbeat(HEARTBEAT);
    let [other] = processes(&builder).await;
    let [cohort] = processes(&builder.handoff(HandOff::InProcess)).await;
    let both = Barrier::new(2);
    let first = cohort.lock("a").await.unwrap();
    let field = first.held().hold_id();
    let later = tokio::spawn({
        let cohort = cohort.clone();
        async move { cohort.lock("a").await.unwrap() }
    });
    let stands = async || waiters(&cohort, "a").await == Some(1);
    eventually(DEADLINE, "the later one", stands).await;
    first.release().await.unwrap();
    let later = later.await.unwrap();
    assert_eq!(later.held().hold_id(), field);
    let owner = later.scope(async { current_owner() }).await;
    assert_ne!(owner.unwrap(), Some(field.owner()));
    let one = async {
        let body = async {
            both.wait().await;
            cohort.lock("b").wait(LONG).run(async {}).await
        };
        let result = later.scope(body).await.unwrap();
        later.release().await.unwrap();
        result
    };
    let other = async {
        let body = async {
            both.wait().await;
            other.lock("a").wait(LONG).run(async {}).await
        };
        other.lock("b").run_flat(body).await
    };
    let results = async { tokio::join!(one, other) };
    let (one, other) = within(DEADLINE, "one gives way", results).await;
    let error = victim(vec![one, other]);
    assert!(is_ring(&error, 2), "{error}");
}

/// The lock cannot end before the work that was spawned inside of it.
#[tokio::test(start_paused = true)]
async fn work_that_left_its_task_closes_a_ring() {
    let locks = Locks::in_memory();
    let both = Barrier::new(2);
    let one = async {
        let body = async {
            both.wait().await;
            let inner = locks.lock("b").wait(LONG).run(async {});
            reentry::spawn(inner).await.unwrap().and_then(|ended| ended)
        };
        locks.lock("a").run_flat(body).await
    };
    let other = async {
        let body = async {
            both.wait().await;
            locks.lock("a").wait(LONG).run(async {}).await
        };
        locks.lock("b").run_flat(body).await
    };
    let (one, other) = tokio::join!(one, other);
    assert!(is_ring(&victim(vec![one, other]), 2));
}

/// The victim may release what it holds and try the whole section again.
#[tokio::test]
async fn a_victim_that_tries_again_from_the_beginning_gets_in() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let both = Barrier::new(2);
    let nest = async |locks: &Locks, outer: &str, inner: &str| {
        let mut deadlocks = 0;
        loop {
            let body = async {
                if deadlocks == 0 {
                    both.wait().await;
                }
                locks.lock(inner).wait(LONG).run(async {}).await
            };
            match locks.lock(outer).run_flat(body).await {
                Ok(()) => return deadlocks,
                Err(error) if error.is_deadlock() => deadlocks += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    let sections = async { tokio::join!(nest(&one, "a", "b"), nest(&other, "b", "a")) };
    let (one, other) = within(DEADLINE, "both get in", sections).await;
    assert!(one + other >= 1);
}
