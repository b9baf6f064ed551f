//! Leaving the queue. A place is given up, or goes to the next waiter of the same process.

use std::time::Duration;

use redis::AsyncCommands;

use super::moves::remaining;
use super::world::{GRANT, MINUTE, World, near, some_hold, some_waiter, successor};
use crate::store::Presence;

on_every_store!(
    a_place_that_is_left_goes_to_the_successor,
    a_place_that_is_left_without_a_successor_is_gone,
    a_place_that_is_dead_goes_to_no_successor,
    a_place_does_not_go_to_a_successor_that_holds_the_lock,
    only_the_hold_that_waits_leaves_the_place,
    a_waiter_that_leaves_when_the_lock_has_moved_to_it_moves_it_on,
);

const TTL: Duration = MINUTE.saturating_mul(9);

async fn a_place_that_is_left_goes_to_the_successor(world: World) {
    let (holder, (first, entry), (next, _), other) =
        (some_hold(), some_waiter(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    world.wait(other.0, TTL, other.1).await;
    let released = world.hand_over(first, successor(next, TTL, entry)).await;
    assert_eq!(released.presence, Presence::Gone);
    assert!(remaining(released).is_some_and(|left| near(left, TTL)));
    assert_eq!(world.waiting().await, 2);
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
}

async fn a_place_that_is_left_without_a_successor_is_gone(world: World) {
    let (holder, (first, entry), other) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    world.wait(other.0, TTL, other.1).await;
    assert_eq!(world.leave(first, entry.inbox).await, Presence::Gone);
    assert_eq!(world.waiting().await, 1);
    assert!(world.is_held(holder, TTL).await);
    world.release(holder).await;
    assert!(world.is_held(other.0, GRANT).await);
}

async fn a_place_that_is_dead_goes_to_no_successor(world: World) {
    let (holder, (first, mut entry)) = (some_hold(), some_waiter());
    entry.life = MINUTE;
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    world.pass(2 * MINUTE).await;
    let next = successor(some_hold(), TTL, entry);
    assert_eq!(world.hand_over(first, next).await.successor, None);
    assert_eq!(world.waiting().await, 0);
}

/// Its entry has expired. The tombstone that the release leaves would keep the place.
#[tokio::test]
async fn a_place_without_an_entry_goes_with_the_release_of_its_hold() {
    let world = World::on_redis().await;
    for is_reader in [false, true] {
        let (holder, (waiter, mut entry)) = (some_hold(), some_waiter());
        entry.life = MINUTE;
        world.take(holder, TTL).await;
        if is_reader {
            world.read_later(&[waiter], entry).await;
        } else {
            world.wait(waiter, TTL, entry).await;
        }
        world.bury(some_hold()).await;
        world.pass(2 * MINUTE).await;
        let places = async || {
            let line = world.key.line().to_owned();
            let mut connection = world.server().connection.clone();
            let score: Option<f64> = connection
                .zscore(line, entry.inbox.to_string())
                .await
                .expect("ZSCORE");
            score.is_some()
        };
        assert!(places().await);
        if is_reader {
            world.unshare(waiter, entry.inbox).await;
        } else {
            world.leave(waiter, entry.inbox).await;
        }
        assert!(!places().await, "reader: {is_reader}");
        world.release(holder).await;
    }
}

/// Two requests of one process were executed in the reverse order. The lock has moved to the second of its waiters when
/// the first one takes the place, and leaves.
async fn a_place_does_not_go_to_a_successor_that_holds_the_lock(world: World) {
    let (holder, (first, entry), (next, _)) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(next, TTL, entry).await;
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
    world.wait(first, TTL, entry).await;
    let released = world.hand_over(first, successor(next, TTL, entry)).await;
    assert_eq!(released.successor, None, "it has to ask");
    assert_eq!(world.waiting().await, 0);
    world.leave(next, entry.inbox).await;
    assert_eq!(
        world.inspect().await,
        None,
        "the lock does not go back to it"
    );
}

async fn only_the_hold_that_waits_leaves_the_place(world: World) {
    let (holder, (first, entry), (gone, elsewhere)) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    // These are another hold of the process, and a hold with the same number of another process.
    assert_eq!(world.leave(gone, entry.inbox).await, Presence::Gone);
    assert_eq!(world.leave(first, elsewhere.inbox).await, Presence::Gone);
    let next = successor(some_hold(), TTL, entry);
    assert_eq!(world.hand_over(gone, next).await.successor, None);
    assert_eq!(world.waiting().await, 1);
    world.release(holder).await;
    assert!(world.is_held(first, GRANT).await);
}

async fn a_waiter_that_leaves_when_the_lock_has_moved_to_it_moves_it_on(world: World) {
    let (holder, (first, entry), other) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    world.wait(other.0, TTL, other.1).await;
    world.release(holder).await;
    assert_eq!(world.leave(first, entry.inbox).await, Presence::Present);
    assert!(world.is_held(other.0, GRANT).await);
    assert_eq!(world.waiting().await, 0);
}
