//! On Redis: nothing stays for ever, and what stays for a while stays for no longer than it should.

use std::time::Duration;

use deadpool_redis::redis::AsyncCommands;

use super::world::{MINUTE, World, field_of, near, some_hold};
use crate::{
    base::id::HoldId,
    store::{DepthChange, Presence, Seen, TOMBSTONE_LIFE},
};

mod queue;

/// The least life of a meta; and the names as the design has them, not as the code makes them.
const META_LIFE: Duration = Duration::from_secs(600);
const LOCK: &str = "app:order";
const META: &str = "reentry:meta:{app:order}:app:order";

fn tombstone(hold: HoldId) -> String {
    format!("reentry:gone:{{app:order}}:app:order:{hold}")
}

/// The life that a key has left.
async fn life(world: &World, key: &str) -> Option<Duration> {
    let mut connection = world.server().connection.clone();
    let millis: i64 = connection.pttl(key).await.expect("PTTL");
    assert_ne!(millis, -1, "{key} has no expiry");
    u64::try_from(millis).ok().map(Duration::from_millis)
}

async fn keys(world: &World) -> Vec<String> {
    let mut connection = world.server().connection.clone();
    let mut keys: Vec<String> = connection.keys("*").await.expect("KEYS");
    keys.sort_unstable();
    keys
}

/// Whether `life` lies in the half-minute below `span`.
fn is_fresh(life: Option<Duration>, span: Duration) -> bool {
    life.is_some_and(|life| life <= span && near(life, span))
}

#[tokio::test]
async fn no_key_is_without_an_expiry_after_any_operation() {
    let world = World::on_redis().await;
    let (hold, other) = (some_hold(), some_hold());
    let change = |seq, lengthen| DepthChange {
        hold,
        target: 2,
        seq,
        ttl: 2 * MINUTE,
        lengthen,
    };
    let check = async |step: &str| {
        let immortal = world.server().immortal().await;
        assert!(immortal.is_empty(), "after {step}: {immortal:?}");
    };
    for round in ["on nothing", "on the remains of a lock"] {
        world.renew(hold, MINUTE).await;
        world.change(change(1, true)).await;
        world.bury(other).await;
        check(round).await;
        world.acquire(hold, MINUTE).await;
        check("acquire").await;
        world.acquire(hold, 2 * MINUTE).await;
        check("acquire again").await;
        world.acquire(some_hold(), MINUTE).await;
        check("acquire while busy").await;
        world.change(change(1, false)).await;
        check("depth").await;
        world.change(change(2, true)).await;
        check("depth with a longer lease").await;
        world.renew(hold, 3 * MINUTE).await;
        check("renew").await;
        world.inspect().await;
        world.force_release(world.seen().await).await;
        check("force_release").await;
        world.acquire(hold, MINUTE).await;
        world.release(hold).await;
        check("release").await;
    }
}

#[tokio::test]
async fn a_renewal_gives_a_lock_without_an_expiry_one() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let mut connection = world.server().connection.clone();
    world.take(hold, 3 * MINUTE).await;
    let _: () = connection.persist(LOCK).await.expect("PERSIST");
    assert_eq!(world.renew(hold, 3 * MINUTE).await, Presence::Present);
    assert!(is_fresh(life(&world, LOCK).await, 3 * MINUTE));
}

#[tokio::test]
async fn a_meta_that_was_deleted_comes_back_with_an_expiry() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let mut connection = world.server().connection.clone();
    world.take(hold, MINUTE).await;
    world.depth(hold, 3, 1).await;
    let _: () = connection.del(META).await.expect("DEL");
    world.depth(hold, 2, 2).await;
    assert!(is_fresh(life(&world, META).await, META_LIFE));
    let snapshot = world.inspect().await.expect("a held lock");
    assert_eq!((snapshot.holders[0].1, snapshot.token), (2, None));
    let Seen { field, token } = world.seen().await;
    assert_eq!((field, token), (field_of(hold), None));
}

#[tokio::test]
async fn asking_again_without_a_meta_keeps_depth_and_lease_and_gives_a_new_token() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let mut connection = world.server().connection.clone();
    let token = world.take(hold, 9 * MINUTE).await;
    world.depth(hold, 3, 1).await;
    let _: () = connection.del(META).await.expect("DEL");
    world.acquire(hold, MINUTE).await;
    assert!(world.seen().await.token > Some(token));
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
    assert!(near(world.remaining().await, 9 * MINUTE));
}

#[tokio::test]
async fn an_open_lock_leaves_no_trace_after_the_life_of_its_siblings() {
    let world = World::on_redis().await;
    let (hold, buried) = (some_hold(), some_hold());
    world.take(hold, MINUTE).await;
    assert!(is_fresh(life(&world, "app:order").await, MINUTE));
    assert!(is_fresh(life(&world, META).await, META_LIFE));
    world.bury(buried).await;
    let gone = tombstone(buried);
    assert!(is_fresh(life(&world, &gone).await, TOMBSTONE_LIFE));
    assert_eq!(keys(&world).await, ["app:order", &gone, META]);

    world.release(hold).await;
    assert_eq!(keys(&world).await, [gone.as_str(), META]);
    world.pass(TOMBSTONE_LIFE + MINUTE).await;
    assert!(keys(&world).await.is_empty());
}

#[tokio::test]
async fn a_release_without_an_open_question_writes_no_tombstone() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.release(hold).await;
    world.release(hold).await;
    assert_eq!(keys(&world).await, [META]);
}

#[tokio::test]
async fn the_meta_outlives_a_long_lease() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.take(hold, 60 * MINUTE).await;
    assert!(life(&world, META).await > life(&world, "app:order").await);
    // Whatever arrives late, from before the lease was that long.
    world.renew(hold, MINUTE).await;
    assert!(life(&world, META).await > life(&world, "app:order").await);
    world.depth(hold, 2, 1).await;
    assert!(life(&world, META).await > life(&world, "app:order").await);
}

#[tokio::test]
async fn tokens_grow_over_a_server_that_was_flushed() {
    let world = World::on_redis().await;
    let mut connection = world.server().connection.clone();
    let token = world.take(some_hold(), MINUTE).await;
    let _: () = connection.flushall().await.expect("FLUSHALL");
    assert!(world.take(some_hold(), MINUTE).await > token);
}
