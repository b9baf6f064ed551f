//! On Redis: programs that use the well-known lock and unlock scripts on the same key (P12).

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::readers::share_request;
use super::world::{MINUTE, World, near, some_hold};
use crate::base::id::InboxId;
use crate::base::options::Mode;
use crate::store::{AcquireReply, DepthChange, Presence};
use crate::support::classic::{Unlocked, classic_lock, classic_unlock};

const LOCK: &str = "app:order";
const CLASSIC: &str = "8b1c1a3e-0000-4000-8000-000000000000:1";
const TTL: u64 = 180_000;

fn connection(world: &World) -> MultiplexedConnection {
    world.server().connection.clone()
}

#[tokio::test]
async fn a_classic_holder_keeps_us_out_for_the_rest_of_its_lease() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    assert_eq!(classic_lock(&mut classic, LOCK, CLASSIC, TTL).await, None);
    world.pass(MINUTE).await;
    match world.acquire(some_hold(), MINUTE).await {
        AcquireReply::Busy {
            remaining: Some(left),
            ..
        } => assert!(near(left, 2 * MINUTE), "{left:?}"),
        other => panic!("{other:?}"),
    }
    let unlocked = classic_unlock(&mut classic, LOCK, CLASSIC, TTL).await;
    assert_eq!(unlocked, Unlocked::Freed);
    world.take(some_hold(), MINUTE).await;
}

#[tokio::test]
async fn a_classic_lock_without_an_expiry_is_busy_without_an_end() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    classic_lock(&mut classic, LOCK, CLASSIC, TTL).await;
    let _: () = classic.persist(LOCK).await.expect("PERSIST");
    let answer = world.acquire(some_hold(), MINUTE).await;
    let is_endless = matches!(
        answer,
        AcquireReply::Busy {
            remaining: None,
            ..
        }
    );
    assert!(is_endless, "{answer:?}");
    let snapshot = world.inspect().await.expect("a held lock");
    assert_eq!((snapshot.remaining, snapshot.token), (None, None));
}

#[tokio::test]
async fn no_request_changes_a_lock_of_a_classic_program() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    // A classic program that comes after this crate finds the meta key of this crate.
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.release(hold).await;
    for _ in 0..2 {
        classic_lock(&mut classic, LOCK, CLASSIC, TTL).await;
    }

    let change = DepthChange {
        mode: Mode::Exclusive,
        hold,
        target: 2,
        seq: 9,
        ttl: 9 * MINUTE,
        lengthen: true,
    };
    assert_eq!(world.change(change).await, Presence::Gone);
    assert_eq!(world.renew(hold, 9 * MINUTE).await, Presence::Gone);
    assert_eq!(world.release(hold).await, Presence::Gone);
    assert_eq!(world.bury(hold).await, Presence::Gone);
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);

    let snapshot = world.inspect().await.expect("a held lock");
    assert_eq!(world.holders().await, [(CLASSIC.to_owned(), 2)]);
    assert_eq!(snapshot.token, None);
    assert!(
        snapshot
            .remaining
            .is_some_and(|left| near(left, 3 * MINUTE))
    );
}

#[tokio::test]
async fn a_classic_holder_can_be_released_by_force() {
    let world = World::on_redis().await;
    classic_lock(&mut connection(&world), LOCK, CLASSIC, TTL).await;
    let seen = world.seen().await;
    assert_eq!((&*seen.fields[0], seen.token), (CLASSIC.as_bytes(), None));
    assert!(world.force_release(seen).await);
    assert_eq!(world.inspect().await, None);
}

#[tokio::test]
async fn a_hold_of_this_crate_excludes_a_classic_program() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.depth(hold, 3, 1).await;
    let wait = classic_lock(&mut classic, LOCK, CLASSIC, TTL).await;
    assert!(wait.is_some_and(|left| (1..=60_000).contains(&left)));
    let unlocked = classic_unlock(&mut classic, LOCK, CLASSIC, TTL).await;
    assert_eq!(unlocked, Unlocked::NotHeld);
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
    world.release(hold).await;
    assert_eq!(classic_lock(&mut classic, LOCK, CLASSIC, TTL).await, None);
}

/// Checks that only the classic program is inside, with the lease that it has requested.
async fn is_untouched(world: &World) {
    assert_eq!(world.holders().await, [(CLASSIC.to_owned(), 1)]);
    assert!(near(world.remaining().await, 3 * MINUTE));
}

async fn is_refused_to_readers(world: &World) {
    let replies = world
        .share_as(share_request(&[some_hold()], MINUTE, None))
        .await;
    assert!(
        matches!(replies[..], [AcquireReply::Busy { .. }]),
        "{replies:?}"
    );
    is_untouched(world).await;
}

#[tokio::test]
async fn a_classic_program_and_readers_exclude_each_other() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    let readers = [some_hold(), some_hold()];
    world.read(&readers, MINUTE).await;
    for reader in readers {
        let wait = classic_lock(&mut classic, LOCK, CLASSIC, TTL).await;
        assert!(wait.is_some_and(|left| (1..=60_000).contains(&left)));
        world.release_shared(reader, InboxId::new()).await;
    }
    assert_eq!(classic_lock(&mut classic, LOCK, CLASSIC, TTL).await, None);
    is_refused_to_readers(&world).await;
    let unlocked = classic_unlock(&mut classic, LOCK, CLASSIC, TTL).await;
    assert_eq!(unlocked, Unlocked::Freed);
    world.read(&readers, MINUTE).await;
}

/// The lock was deleted while readers held it, and the classic program has taken it. The line still contains the
/// readers.
#[tokio::test]
async fn readers_of_a_stale_line_change_nothing_beside_a_classic_holder() {
    let world = World::on_redis().await;
    let mut classic = connection(&world);
    let readers = [some_hold(), some_hold()];
    world.read(&readers, MINUTE).await;
    let _: u32 = classic.del(LOCK).await.expect("DEL");
    assert_eq!(classic_lock(&mut classic, LOCK, CLASSIC, TTL).await, None);
    // A renewal that is repeated finds the same.
    for _ in 0..2 {
        assert_eq!(world.keep(&readers, 9 * MINUTE).await, readers);
        is_untouched(&world).await;
    }
    is_refused_to_readers(&world).await;
    let write = world.acquire(some_hold(), MINUTE).await;
    assert!(matches!(write, AcquireReply::Busy { .. }), "{write:?}");
    for reader in readers {
        let gone = world.release_shared(reader, InboxId::new()).await;
        assert_eq!(gone, Presence::Gone);
        is_untouched(&world).await;
    }
    let unlocked = classic_unlock(&mut classic, LOCK, CLASSIC, TTL).await;
    assert_eq!(unlocked, Unlocked::Freed);
    world.read(&readers, MINUTE).await;
}
