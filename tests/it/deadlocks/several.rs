//! Rings through callers that take several locks together.

use std::time::Duration;

use super::rings::{is_ring, keys, victim};
use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, waiters, within};
use futures_util::future::join_all;
use reentry::{LockError, Locks};
use tokio::sync::Barrier;
use tokio::time::sleep;

const HEARTBEAT: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

/// In the order in which they are taken.
const ALL: [&str; 3] = ["b", "c", "a"];

async fn is_free(locks: &Locks, key: &str) -> bool {
    locks.inspect(key).await.unwrap().is_none()
}

/// Nothing is left of any lock.
async fn all_are_free(locks: &Locks) {
    let are_free = async || {
        let mut are_free = is_free(locks, "outer").await;
        for key in ALL {
            are_free &= is_free(locks, key).await;
        }
        are_free
    };
    eventually(DEADLINE, "nothing is held", are_free).await;
}

/// Holds the last of the keys, and then wants another one.
async fn opposite(locks: &Locks, wanted: &str, holds: &Barrier) -> Result<(), LockError> {
    let body = async {
        // The others may begin, and have got what they can get.
        holds.wait().await;
        holds.wait().await;
        locks.lock(wanted).wait(LONG).run(async {}).await
    };
    locks.lock("a").run_flat(body).await
}

/// Takes all keys, as soon as the last one is held.
async fn together(locks: &Locks, holds: &Barrier) -> Result<(), LockError> {
    holds.wait().await;
    let taking = locks.lock_all(["a", "b", "c"]).wait(LONG).run(async {});
    let has_others = async {
        let waits = async || waiters(locks, "a").await == Some(1);
        eventually(DEADLINE, "it waits for the last key", waits).await;
        holds.wait().await;
    };
    tokio::join!(taking, has_others).0
}

/// What it has already encloses its wait, under whichever of its keys it is waited for.
async fn through_its_own_keys(here: &Locks, there: &Locks) {
    for wanted in ["b", "c"] {
        let holds = Barrier::new(2);
        let ring = async { tokio::join!(together(here, &holds), opposite(there, wanted, &holds)) };
        let (one, other) = within(DEADLINE, "one gives way", ring).await;
        let error = victim(vec![one, other]);
        assert!(is_ring(&error, 2), "{error}");
        let pair = |holds: &str, waits_for: &str| (holds.to_owned(), waits_for.to_owned());
        assert!(keys(&error).contains(&pair(wanted, "a")), "{error}");
        assert!(keys(&error).contains(&pair("a", wanted)), "{error}");
        all_are_free(here).await;
    }
}

/// What encloses the acquisition closes the ring.
async fn through_an_outer_lock(here: &Locks, there: &Locks) {
    let holds = Barrier::new(2);
    let nested = here.lock("outer").run_flat(together(here, &holds));
    let ring = async { tokio::join!(nested, opposite(there, "outer", &holds)) };
    let (one, other) = within(DEADLINE, "one gives way", ring).await;
    let error = victim(vec![one, other]);
    assert!(is_ring(&error, 2), "{error}");
    all_are_free(here).await;
}

#[tokio::test(start_paused = true)]
async fn several_locks_against_an_opposite_nesting_are_a_ring() {
    let locks = Locks::in_memory();
    through_its_own_keys(&locks, &locks).await;
    through_an_outer_lock(&locks, &locks).await;
}

#[tokio::test]
async fn several_locks_against_an_opposite_nesting_are_a_ring_among_processes() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    through_its_own_keys(&one, &other).await;
    through_an_outer_lock(&one, &other).await;
    let is_clean = async || server.ask("DBSIZE").await == "0";
    eventually(DEADLINE, "no key is left", is_clean).await;
}

/// The last one to wait closes the ring, and gives way: here it is the one that takes several.
#[tokio::test(start_paused = true)]
async fn a_victim_gives_back_all_that_it_had_taken() {
    let locks = Locks::in_memory();
    let first = locks.lock("b").await.unwrap();
    let nested = async {
        let body = async {
            // It stands behind the one that takes several.
            sleep(SECOND).await;
            locks.lock("b").wait(LONG).run(async {}).await
        };
        locks.lock("a").run_flat(body).await
    };
    let several = async {
        let all = locks.lock_all(ALL).wait(LONG);
        let result = all.run(async {}).await;
        // What is left is what the other one has.
        let given_back = async || is_free(&locks, "c").await;
        eventually(DEADLINE, "it has given back", given_back).await;
        result
    };
    let release = async {
        sleep(10 * SECOND).await;
        first.release().await
    };
    let (nested, several, released) = tokio::join!(nested, several, release);
    nested.and(released).unwrap();
    assert!(is_ring(&several.unwrap_err(), 2));
    all_are_free(&locks).await;
}

/// All of them take the locks in one order.
#[tokio::test(start_paused = true)]
async fn callers_that_take_several_locks_make_nobody_a_victim() {
    let locks = Locks::in_memory();
    let orders = [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["b", "a", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ];
    // Each is inside for long enough that those who wait walk several times.
    let together = orders.map(|keys| locks.lock_all(keys).wait(LONG).run(sleep(5 * SECOND)));
    let alone = ALL.map(|key| locks.lock(key).wait(LONG).run(sleep(5 * SECOND)));
    for result in join_all(alone.into_iter().chain(together)).await {
        result.unwrap();
    }
}
