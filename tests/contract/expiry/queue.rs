//! The expiries of a queue. It lives as long as its last place, and every move leaves expiries behind.

use std::time::Duration;

use redis::AsyncCommands;

use super::super::world::{MINUTE, PLACE_LIFE, World, some_hold, some_waiter};
use super::{LOCK, is_fresh, keys, life};

const QUEUE: &str = "reentry:queue:{app:order}:app:order";
const ENTRIES: &str = "reentry:entries:{app:order}:app:order";

const TTL: Duration = MINUTE.saturating_mul(9);

#[tokio::test]
async fn a_queue_disappears_with_the_last_that_waits() {
    let world = World::on_redis().await;
    let (mut holder, mut connection) = (some_hold(), world.server().connection.clone());
    world.take(holder, TTL).await;
    for way in ["granted", "taken", "left", "dead"] {
        let (next, entry) = some_waiter();
        world.wait(next, TTL, entry).await;
        for key in [QUEUE, ENTRIES] {
            assert!(is_fresh(life(&world, key).await, PLACE_LIFE), "{way}");
        }
        match way {
            "granted" => drop(world.release(holder).await),
            "taken" => {
                let _: () = connection.del(LOCK).await.expect("DEL");
                world.queue(next, TTL, entry).await;
            }
            "left" => drop(world.leave(next, entry.inbox).await),
            _ => {
                world.pass(PLACE_LIFE + MINUTE).await;
                world.take(next, TTL).await;
            }
        }
        assert_eq!(keys(&world).await, [LOCK], "{way}");
        holder = world.holders().await[0].0.parse().expect("a hold");
    }
}

#[tokio::test]
async fn a_queue_lives_as_long_as_the_last_of_its_places() {
    let world = World::on_redis().await;
    let ((long, mut lasting), (short, entry)) = (some_waiter(), some_waiter());
    lasting.life = 3 * PLACE_LIFE;
    world.take(some_hold(), 4 * PLACE_LIFE).await;
    world.wait(long, TTL, lasting).await;
    world.wait(short, TTL, entry).await;
    for key in [QUEUE, ENTRIES] {
        assert!(is_fresh(life(&world, key).await, lasting.life));
    }
    world.pass(2 * PLACE_LIFE).await;
    assert_eq!(world.waiting().await, 1);
    world.wait(short, TTL, entry).await;
    for key in [QUEUE, ENTRIES] {
        assert!(is_fresh(life(&world, key).await, PLACE_LIFE));
    }
    world.pass(PLACE_LIFE + MINUTE).await;
    assert_eq!(keys(&world).await, [LOCK]);
}

#[tokio::test]
async fn no_key_is_without_an_expiry_wherever_a_lock_moves() {
    let world = World::on_redis().await;
    let (holder, head, other, next) = (some_hold(), some_waiter(), some_waiter(), some_waiter());
    let check = async |step: &str| {
        let immortal = world.server().immortal().await;
        assert!(immortal.is_empty(), "after {step}: {immortal:?}");
    };
    for round in ["on nothing", "on the remains of a lock"] {
        world.take(holder, TTL).await;
        world.wait(head.0, TTL, head.1).await;
        check(round).await;
        world.wait(head.0, TTL, head.1).await;
        world.wait(other.0, TTL, other.1).await;
        check("wait").await;
        world.wait(next.0, TTL, next.1).await;
        world.release(holder).await;
        check("a lock that moved").await;
        world.leave(other.0, other.1.inbox).await;
        check("a place that was left").await;
        world.force_release(world.seen().await).await;
        check("force_release").await;
        world.pass(TTL + MINUTE).await;
        world.acquire(holder, TTL).await;
        check("a lock that was asked for when its lease was over").await;
        world.release(holder).await;
        check("release").await;
        assert_eq!(world.inspect().await, None);
    }
}
