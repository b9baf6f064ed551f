//! Waits that look like a deadlock and are not: no caller must give way. There are also deadlocks that are not searched
//! for.

use super::ground::{LONG, SECOND, nest};
use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, within};
use reentry::Locks;
use reentry::testing::Server;
use tokio::join;
use tokio::sync::Barrier;
use tokio::time::sleep;

/// Two call graphs wait for each other through a semaphore, and a third one has its other permit. When that is
/// released, both continue.
#[tokio::test(start_paused = true)]
async fn a_cycle_through_one_of_two_permits_makes_no_victim() {
    let locks = Locks::in_memory();
    let all = Barrier::new(3);
    let permit = || locks.semaphore("permits", 2);
    let has_the_other = permit().run(async {
        all.wait().await;
        // Long enough for several walks.
        sleep(40 * SECOND).await;
    });
    let holds_permit = nest(permit(), locks.lock("lock"), &all);
    let holds_lock = nest(locks.lock("lock"), permit(), &all);
    let (one, other, third) = join!(holds_permit, holds_lock, has_the_other);
    one.and(other).and(third).unwrap();
}

/// Its record still exists when the other process begins to wait for the lock that it held, and closes a cycle that
/// never existed.
#[tokio::test(start_paused = true)]
async fn a_record_of_a_dead_process_makes_no_victim() {
    let server = Server::new();
    let (locks, dies) = (server.locks(), server.locks());
    let outer = locks.lock("a").await.unwrap();
    let inner = dies.lock("a").wait(LONG).run(async {});
    let dying = tokio::spawn(dies.lock("b").try_run(inner));
    // Its record is published.
    sleep(SECOND).await;
    server.partition(&dies);
    dying.abort();
    // It enters when the lease of the dead holder has expired.
    let inner = outer.scope(locks.lock("b").wait(LONG).run(async {}));
    inner.await.unwrap().unwrap();
    outer.release().await.unwrap();
}

/// A classic program publishes nothing, so it is unknown what it waits for.
#[tokio::test]
async fn a_search_ends_at_a_lock_of_a_classic_program() {
    let server = RedisServer::start().await;
    let [locks] = processes(&patient(&server).__heartbeat(SECOND / 5)).await;
    let mut connection = server.connection().await;
    let classic = "4f0e1d2c-0000-4000-8000-000000000000:1";
    classic_lock(&mut connection, "b", classic, 60_000).await;
    let before = server.commandstats().await;
    let inner = locks.lock("b").wait(LONG);
    let waiting = tokio::spawn(locks.lock("a").try_run(inner.run(async {})));
    // These are the holds of the key and the waits of its holder, twice.
    let walked = async || server.count_since(&before, "hgetall").await >= 4;
    eventually(DEADLINE, "two walks", walked).await;
    assert!(!waiting.is_finished());
    let unlocked = classic_unlock(&mut connection, "b", classic, 60_000).await;
    assert_eq!(unlocked, Unlocked::Freed);
    let waited = within(DEADLINE, "its turn", waiting).await;
    waited.unwrap().unwrap();
}
