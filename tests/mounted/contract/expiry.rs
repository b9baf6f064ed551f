//! On Redis: nothing remains for ever, and nothing remains for longer than it should.

use std::time::Duration;

use redis::AsyncCommands;

use super::world::{
    GRANT, MINUTE, NESTED, PLACE_LIFE, World, field_of, near, release_request, some_hold,
    some_waiter,
};
use crate::store::redis::codec::SEQ_LIFE;
use crate::store::{AcquireReply, Presence, ReleaseKind, SeenHolders, TOMBSTONE_LIFE};

mod queue;

/// The names are those of the design, and not those that the code creates.
const LOCK: &str = "app:order";
const LINE: &str = "reentry:queue:{app:order}:app:order";
const ENTRIES: &str = "reentry:entries:{app:order}:app:order";

/// The remaining life of a key.
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

/// Returns whether `life` is in the half-minute below `span`.
fn is_fresh(life: Option<Duration>, span: Duration) -> bool {
    life.is_some_and(|life| life <= span && near(life, span))
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
async fn a_repeated_acquire_replaces_a_missing_token() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let mut connection = world.server().connection.clone();
    let token = world.take(hold, 9 * MINUTE).await;
    world.depth(hold, 3, 1).await;
    let _: i64 = connection.hdel(LOCK, "mode").await.expect("HDEL");
    let SeenHolders {
        fields,
        token: none,
    } = world.seen().await;
    assert_eq!((fields, none), (vec![field_of(hold)], None));
    world.acquire(hold, MINUTE).await;
    assert!(world.seen().await.token > Some(token));
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
    assert!(near(world.remaining().await, 9 * MINUTE));
}

#[tokio::test]
async fn a_free_lock_leaves_no_key() {
    let world = World::on_redis().await;
    let nothing: [&str; 0] = [];
    let (hold, head) = (some_hold(), some_waiter());
    let short = |hold| release_request(hold, ReleaseKind::Short);
    let nested = |hold| release_request(hold, ReleaseKind::Full(NESTED));
    world.take(hold, MINUTE).await;
    assert!(is_fresh(life(&world, LOCK).await, MINUTE));
    assert_eq!(keys(&world).await, [LOCK]);
    world.end(short(hold)).await;
    assert_eq!(keys(&world).await, nothing);

    world.take(hold, MINUTE).await;
    world.depth(hold, 2, 1).await;
    assert_eq!(keys(&world).await, [LOCK, ENTRIES]);
    world.end(nested(hold)).await;
    assert_eq!(keys(&world).await, nothing);

    world.take(hold, MINUTE).await;
    world.wait(head.0, MINUTE, head.1).await;
    world.end(short(hold)).await;
    assert!(world.is_held(head.0, GRANT).await);
    world.end(short(head.0)).await;
    assert_eq!(keys(&world).await, nothing);

    world.take(hold, MINUTE).await;
    world.depth(hold, 2, 1).await;
    world.wait(head.0, MINUTE, head.1).await;
    world.leave(head.0, head.1.inbox).await;
    assert!(world.force_release(world.seen().await).await);
    assert_eq!(keys(&world).await, nothing);
}

#[tokio::test]
async fn a_tombstone_lasts_ten_minutes_and_the_line_with_the_last() {
    let world = World::on_redis().await;
    let (hold, first, second) = (some_hold(), some_hold(), some_hold());
    world.take(hold, 60 * MINUTE).await;
    world.bury(first).await;
    assert!(is_fresh(life(&world, LINE).await, TOMBSTONE_LIFE));
    world.pass(TOMBSTONE_LIFE / 2).await;
    world.bury(second).await;
    assert!(is_fresh(life(&world, LINE).await, TOMBSTONE_LIFE));
    assert_eq!(keys(&world).await, [LOCK, LINE]);
    let mut connection = world.server().connection.clone();
    let mut count = async || -> u64 { connection.zcard(LINE).await.expect("ZCARD") };
    assert_eq!(count().await, 2);
    // The first one is dead by then, and is removed with the third.
    world.pass(TOMBSTONE_LIFE / 2 + MINUTE).await;
    world.bury(hold).await;
    assert_eq!(count().await, 2);
    assert_eq!(keys(&world).await, [LINE]);
    world.pass(TOMBSTONE_LIFE + MINUTE).await;
    assert!(keys(&world).await.is_empty());
}

/// A tombstone keeps the line for longer than its places do, and these may outlive it.
#[tokio::test]
async fn a_place_beside_a_tombstone_lives_as_long_as_it_would_alone() {
    let world = World::on_redis().await;
    let (holder, gone, (next, mut entry)) = (some_hold(), some_hold(), some_waiter());
    world.take(holder, 60 * MINUTE).await;
    world.bury(gone).await;
    entry.life = 2 * MINUTE;
    world.wait(next, MINUTE, entry).await;
    assert!(is_fresh(life(&world, LINE).await, TOMBSTONE_LIFE));
    assert!(is_fresh(life(&world, ENTRIES).await, 2 * MINUTE));
    entry.life = PLACE_LIFE;
    world.wait(next, MINUTE, entry).await;
    for key in [LINE, ENTRIES] {
        assert!(is_fresh(life(&world, key).await, PLACE_LIFE));
    }
    assert_eq!(world.acquire(gone, MINUTE).await, AcquireReply::Ended);
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
}

/// A process that died with nested entries leaves only the number.
#[tokio::test]
async fn the_number_of_a_depth_change_lasts_ten_to_twenty_minutes() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.take(hold, 60 * MINUTE).await;
    world.depth(hold, 2, 1).await;
    assert!(is_fresh(life(&world, ENTRIES).await, SEQ_LIFE));
    world.pass(SEQ_LIFE / 2 - MINUTE).await;
    world.depth(hold, 1, 2).await;
    assert!(life(&world, ENTRIES).await > Some(SEQ_LIFE / 2));
    world.pass(2 * MINUTE).await;
    world.depth(hold, 2, 3).await;
    assert!(is_fresh(life(&world, ENTRIES).await, SEQ_LIFE));
    world.pass(SEQ_LIFE + MINUTE).await;
    assert_eq!(keys(&world).await, [LOCK]);
    // From here on the depth begins again, with a number that is still greater.
    world.depth(hold, 3, 4).await;
    world.depth(hold, 2, 3).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
}

#[tokio::test]
async fn tokens_grow_over_a_server_that_was_flushed() {
    let world = World::on_redis().await;
    let mut connection = world.server().connection.clone();
    let token = world.take(some_hold(), MINUTE).await;
    let _: () = connection.flushall().await.expect("FLUSHALL");
    assert!(world.take(some_hold(), MINUTE).await > token);
}
