//! P12 with readers: programs with the well-known scripts, and a lock that was deleted while readers held it.

use std::time::Duration;

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, KEY};
use crate::support::{Action, DEADLINE, Rig, eventually, within};
use redis::aio::MultiplexedConnection;

const CLASSIC: &str = "9b2d7c3e-8a5f-4d1c-9e60-2f4b8a7c6d5e:1";

/// A TTL that is longer than the leases of the readers.
const TTL_MS: u64 = 300_000;

async fn lock(connection: &mut MultiplexedConnection) -> Option<i64> {
    classic_lock(connection, KEY, CLASSIC, TTL_MS).await
}

async fn unlock(connection: &mut MultiplexedConnection) {
    let unlocked = classic_unlock(connection, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(unlocked, Unlocked::Freed);
}

/// The lock is deleted while readers hold it, and the classic program takes it. The line still contains the readers.
async fn taken_away(rig: &Rig, connection: &mut MultiplexedConnection) {
    assert_eq!(rig.server.ask(&format!("DEL {KEY}")).await, "1");
    assert_eq!(lock(connection).await, None);
}

/// Checks that only the classic program is inside, and its lease is unchanged.
async fn is_untouched(rig: &Rig) {
    let holders: Vec<_> = rig.hash().await.into_iter().collect();
    assert_eq!(holders, [(CLASSIC.to_owned(), 1)]);
    assert!(rig.pttl().await > 200_000);
}

#[tokio::test]
async fn a_classic_program_and_readers_exclude_each_other() {
    let rig = Rig::start().await;
    let mut classic = rig.server.connection().await;
    let one = rig.locks.lock(KEY).read().await.unwrap();
    let other = rig.locks.lock(KEY).read().await.unwrap();
    for reader in [one, other] {
        let left = lock(&mut classic).await;
        assert!(left.is_some_and(|left| left > 0), "{left:?}");
        reader.release().await.unwrap();
    }
    assert_eq!(rig.server.key_count().await, 0);
    assert_eq!(lock(&mut classic).await, None);
    let read = rig.locks.lock(KEY).read().no_wait().await;
    assert!(read.is_err_and(|error| error.is_busy()));
    is_untouched(&rig).await;
    unlock(&mut classic).await;
    rig.locks.lock(KEY).read().run(async {}).await.unwrap();
}

#[tokio::test]
async fn no_reader_enters_beside_a_classic_program_by_a_stale_line() {
    let rig = Rig::start().await;
    let mut classic = rig.server.connection().await;
    let readers = [
        rig.locks.lock(KEY).read().await.unwrap(),
        rig.locks.lock(KEY).read().await.unwrap(),
    ];
    taken_away(&rig, &mut classic).await;
    let read = rig.locks.lock(KEY).read().no_wait().await;
    assert!(read.is_err_and(|error| error.is_busy()));
    let write = rig.locks.lock(KEY).no_wait().await;
    assert!(write.is_err_and(|error| error.is_busy()));
    is_untouched(&rig).await;
    for reader in readers {
        let lost = reader.release().await;
        assert!(lost.is_err_and(|error| error.is_lost()));
        is_untouched(&rig).await;
    }
    unlock(&mut classic).await;
    let guard = rig.locks.lock(KEY).read().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(rig.server.key_count().await, 0);
}

#[tokio::test]
async fn a_renewal_of_readers_that_lost_their_lock_leaves_a_classic_lease_alone() {
    let rig = Rig::with_ttl(Duration::from_secs(3)).await;
    let mut classic = rig.server.connection().await;
    let held = rig.locks.lock(KEY).read().await.unwrap();
    rig.proxy.on_next(ToServer, EVALSHA, Action::Record);
    taken_away(&rig, &mut classic).await;
    let lost = held.held().clone();
    within(DEADLINE, "the renewal tells of it", lost.lost()).await;
    is_untouched(&rig).await;
    // The renewal is repeated.
    assert_eq!(
        rig.proxy.replay(&rig.proxy.recorded()[0]).await[..2],
        *b"*1"
    );
    is_untouched(&rig).await;
    drop(held);
    unlock(&mut classic).await;
}

/// The classic program deletes the lock at its end, and the waiting readers find that out with their next request.
#[tokio::test]
async fn readers_who_wait_for_a_classic_program_enter_when_it_has_left() {
    let rig = Rig::build(|builder| {
        let minute = Duration::from_secs(60);
        builder.ttl(minute).__heartbeat(Duration::from_millis(250))
    })
    .await;
    let mut classic = rig.server.connection().await;
    assert_eq!(lock(&mut classic).await, None);
    let read = || tokio::spawn(rig.locks.lock(KEY).read().run(async {}));
    let readers = [read(), read()];
    let queued = async || crate::support::queued(&rig.server).await == 1;
    eventually(DEADLINE, "they wait", queued).await;
    is_untouched(&rig).await;
    unlock(&mut classic).await;
    for reader in readers {
        within(DEADLINE, "it enters", reader)
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(rig.server.key_count().await, 0);
}
