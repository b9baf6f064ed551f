//! Rings through callers that take several locks together.

use super::ground::{LONG, SECOND, is_ring, keys, one_and_two_processes, victim};
use crate::support::{until_free, until_waiting};
use futures_util::future::join_all;
use reentry::{LockError, Locks};
use tokio::join;
use tokio::sync::Barrier;
use tokio::time::sleep;

/// The keys in the order in which they are acquired.
const ALL: [&str; 3] = ["b", "c", "a"];

async fn all_are_free(locks: &Locks) {
    for key in ALL.into_iter().chain(["outer"]) {
        until_free(locks, key).await;
    }
}

/// Holds the last of the keys, and wants another one when the others have acquired what they can.
async fn opposite(locks: &Locks, wanted: &str, holds: &Barrier) -> Result<(), LockError> {
    let body = async {
        holds.wait().await;
        holds.wait().await;
        locks.lock(wanted).wait(LONG).run(async {}).await
    };
    locks.lock("a").try_run(body).await
}

/// Acquires all keys, as soon as the last one is held.
async fn together(locks: &Locks, holds: &Barrier) -> Result<(), LockError> {
    holds.wait().await;
    let taking = locks.lock_all(ALL).wait(LONG).run(async {});
    let has_others = async {
        until_waiting(locks, "a", 1).await;
        holds.wait().await;
    };
    join!(taking, has_others).0
}

/// The locks that it already has enclose its wait, whichever of its keys another caller waits for. So do the locks that
/// enclose the acquisition.
#[tokio::test(start_paused = true)]
async fn lock_all_and_an_opposite_nesting_deadlock() {
    for [here, there] in one_and_two_processes() {
        for wanted in ["b", "c", "outer"] {
            let holds = Barrier::new(2);
            let several = async {
                match wanted {
                    "outer" => here.lock("outer").try_run(together(&here, &holds)).await,
                    _ => together(&here, &holds).await,
                }
            };
            let (one, other) = join!(several, opposite(&there, wanted, &holds));
            let error = victim([one, other]);
            assert!(is_ring(&error, 2), "{error}");
            for (holds, waits_for) in [(wanted, "a"), ("a", wanted)] {
                let pair = (holds.to_owned(), waits_for.to_owned());
                assert!(keys(&error).contains(&pair), "{error}");
            }
            all_are_free(&here).await;
        }
    }
}

/// All of them acquire the locks in one order.
#[tokio::test(start_paused = true)]
async fn lock_all_in_any_order_makes_no_victim() {
    let locks = Locks::in_memory();
    let orders = ["abc", "acb", "bac", "bca", "cab", "cba"];
    let orders = orders.map(|order| order.split("").filter(|key| !key.is_empty()));
    // Each is inside for long enough that those who wait walk several times.
    let together = orders.map(|keys| locks.lock_all(keys).wait(LONG).run(sleep(5 * SECOND)));
    let alone = ALL.map(|key| locks.lock(key).wait(LONG).run(sleep(5 * SECOND)));
    for result in join_all(alone.into_iter().chain(together)).await {
        result.unwrap();
    }
}
