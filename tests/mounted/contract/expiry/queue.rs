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
