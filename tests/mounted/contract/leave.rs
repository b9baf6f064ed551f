//! Leaving the queue. A place is given up, unless the next waiter of the same process has taken it over.

use std::time::Duration;

use redis::AsyncCommands;

use super::world::{GRANT, MINUTE, World, some_hold, some_waiter};
use crate::store::Presence;

on_every_store!(
    the_next_waiter_of_a_process_keeps_its_place,
    leaving_the_queue_removes_the_place,
    only_the_hold_that_waits_leaves_the_place,
);

const TTL: Duration = MINUTE.saturating_mul(9);

/// Its request was sent before the end of the first waiter, or arrives before it.
async fn the_next_waiter_of_a_process_keeps_its_place(world: World) {
    let (holder, (first, entry), next, other) =
        (some_hold(), some_waiter(), some_hold(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    world.wait(other.0, TTL, other.1).await;
    world.wait(next, TTL, entry).await;
    assert_eq!(world.leave(first, entry.inbox).await, Presence::Gone);
    assert_eq!(world.waiting().await, 2);
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
}

async fn leaving_the_queue_removes_the_place(world: World) {
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
            let line = world.key.queue().to_owned();
            let mut connection = world.server().connection.clone();
            let score: Option<f64> = connection
                .zscore(line, entry.inbox.to_string())
                .await
                .expect("ZSCORE");
            score.is_some()
        };
        assert!(places().await);
        if is_reader {
            world.release_shared(waiter, entry.inbox).await;
        } else {
            world.leave(waiter, entry.inbox).await;
        }
        assert!(!places().await, "reader: {is_reader}");
        world.release(holder).await;
    }
}

async fn only_the_hold_that_waits_leaves_the_place(world: World) {
    let (holder, (first, entry), (gone, elsewhere)) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(first, TTL, entry).await;
    // These are another hold of the process, and a hold with the same number of another process.
    assert_eq!(world.leave(gone, entry.inbox).await, Presence::Gone);
    assert_eq!(world.leave(first, elsewhere.inbox).await, Presence::Gone);
    assert_eq!(world.waiting().await, 1);
    world.release(holder).await;
    assert!(world.is_held(first, GRANT).await);
}
