//! On Redis: a lock that is left free for programs of another kind.

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands;

use super::world::{
    GRANT, MINUTE, NESTED, PLACE_LIFE, UNANSWERED, World, acquire_request, release_request,
    some_hold, some_waiter,
};
use crate::base::id::HoldId;
use crate::base::neighbours::Neighbours;
use crate::store::{AcquireReply, End, Presence, Share, ShareRequest, Vacate};

const LOCK: &str = "app:order";
const LINE: &str = "reentry:queue:{app:order}:app:order";
const ENTRIES: &str = "reentry:entries:{app:order}:app:order";
const VACATED: &str = "reentry:vacated:{app:order}:app:order";

/// The lock stays free for 10 s and a quarter of that.
fn neighbours() -> Neighbours {
    Neighbours::polling(Duration::from_secs(10)).every(MINUTE)
}

const SHORT: End = End::Short;

impl World {
    async fn vacate(&self, hold: HoldId, end: End) -> bool {
        self.send(Vacate {
            key: self.key.clone(),
            request: release_request(hold, end),
            neighbours: neighbours(),
        })
        .await
    }

    async fn is_busy(&self, hold: HoldId) -> bool {
        let asked = self.acquire(hold, MINUTE).await;
        matches!(asked, AcquireReply::Busy { remaining: Some(left), .. } if left <= neighbours().pause())
    }

    async fn keys(&self) -> Vec<String> {
        let mut connection = self.server().connection.clone();
        let mut keys: Vec<String> = connection.keys("*").await.expect("KEYS");
        keys.sort();
        keys
    }
}

#[tokio::test]
async fn a_lock_that_no_process_waits_for_is_free_at_once() {
    let world = World::on_redis().await;
    for (end, is_unanswered) in [
        (SHORT, false),
        (End::Full(NESTED), false),
        (End::Full(UNANSWERED), true),
    ] {
        let hold = some_hold();
        world.take(hold, MINUTE).await;
        world.depth(hold, 1, 1).await;
        let ended = world.vacate(hold, end).await;
        assert!(ended, "{end:?}");
        let next = some_hold();
        world.take(next, MINUTE).await;
        world.release(next).await;
        let late = world.acquire(hold, MINUTE).await;
        let is_refused = late == AcquireReply::Ended;
        assert_eq!(is_refused, is_unanswered, "{late:?}");
        world.release(hold).await;
    }
}

#[tokio::test]
async fn it_is_left_free_for_a_moment_and_then_goes_to_the_first_in_the_line() {
    let world = World::on_redis().await;
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    world.take(hold, MINUTE).await;
    world.wait(next, MINUTE, entry).await;
    let ended = world.vacate(hold, SHORT).await;
    assert!(ended);
    assert_eq!(world.inspect().await, None);
    // Neither the first process in the line, nor a new process, nor a reader gets it.
    world.wait(next, MINUTE, entry).await;
    let (other, beside) = some_waiter();
    world.wait(other, MINUTE, beside).await;
    assert!(world.is_busy(some_hold()).await);
    let share = world.send(Share {
        key: world.key.clone(),
        request: ShareRequest {
            holds: vec![some_hold()],
            ttl: MINUTE,
            limit: None,
            entry: None,
        },
    });
    let share = share.await;
    assert!(
        matches!(share[..], [AcquireReply::Busy { remaining: Some(left), .. }] if left <= neighbours().pause()),
        "{share:?}"
    );
    world.pass(neighbours().pause()).await;
    assert!(!world.is_busy(some_hold()).await);
    assert!(world.is_held(next, GRANT).await);
}

#[tokio::test]
async fn it_is_not_left_free_again_before_the_stated_time() {
    let world = World::on_redis().await;
    let (mut hold, (next, entry)) = (some_hold(), some_waiter());
    world.take(hold, MINUTE).await;
    world.wait(next, MINUTE, entry).await;
    assert!(world.vacate(hold, SHORT).await);
    world.pass(neighbours().pause()).await;
    world.acquire(some_hold(), MINUTE).await;
    hold = next;
    let (next, entry) = some_waiter();
    world.wait(next, MINUTE, entry).await;
    let before = world.keys().await;
    assert!(!world.vacate(hold, SHORT).await);
    assert_eq!(world.keys().await, before);
    assert!(world.is_held(hold, GRANT).await, "nothing has changed");
    world.pass(MINUTE).await;
    assert!(world.vacate(hold, SHORT).await);
}

#[tokio::test]
async fn a_hold_that_is_not_in_the_lock_changes_nothing() {
    let world = World::on_redis().await;
    let hold = some_hold();
    assert!(!world.vacate(hold, SHORT).await);
    world.take(hold, MINUTE).await;
    assert!(!world.vacate(some_hold(), End::Full(UNANSWERED)).await);
    assert!(world.is_held(hold, MINUTE).await);
    assert_eq!(world.keys().await, [LOCK]);
}

#[tokio::test]
async fn all_that_it_leaves_expires() {
    let world = World::on_redis().await;
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    world.take(hold, MINUTE).await;
    world.wait(next, MINUTE, entry).await;
    assert!(world.vacate(hold, SHORT).await);
    let mut connection = world.server().connection.clone();
    for key in [LINE, ENTRIES, VACATED] {
        let left: i64 = connection.pttl(key).await.expect("PTTL");
        assert!(left > 0, "{key}: {left}");
    }
    // Its process has left, and no other one joins.
    world.pass(2 * PLACE_LIFE).await;
    assert_eq!(world.keys().await, [""; 0]);
}

#[tokio::test]
async fn what_is_no_time_leaves_the_lock_to_the_first_in_the_line() {
    let world = World::on_redis().await;
    let mut connection = world.server().connection.clone();
    for odd in [
        "",
        "soon",
        "-1",
        "1.5",
        "9007199254740993",
        "99999999999999999999",
    ] {
        let (hold, (next, entry)) = (some_hold(), some_waiter());
        world.take(hold, MINUTE).await;
        world.wait(next, MINUTE, entry).await;
        assert!(world.vacate(hold, SHORT).await);
        let set: Result<u32, _> = connection.hset(ENTRIES, "pause", odd).await;
        set.expect("HSET");
        let had = world.queue(next, MINUTE, entry).await;
        assert!(matches!(had, AcquireReply::Held { .. }), "{odd}: {had:?}");
        world.release(next).await;
        let _: u32 = connection.del(VACATED).await.expect("DEL");
    }
}

/// The release that follows removes a value of another type.
#[tokio::test]
async fn a_line_of_another_type_is_left_to_the_release() {
    let world = World::on_redis().await;
    let mut connection = world.server().connection.clone();
    for key in [LINE, ENTRIES] {
        let hold = some_hold();
        world.take(hold, MINUTE).await;
        let _: () = connection.set(key, "odd").await.expect("SET");
        let store = Arc::new(world.server().store().await);
        let request = release_request(hold, SHORT);
        let ended = store.vacate(&world.key, request, neighbours()).await;
        assert_eq!(ended.expect("an answer"), Presence::Present, "{key}");
        assert_eq!(world.inspect().await, None);
        let _: u32 = connection.del(key).await.expect("DEL");
    }
}

#[tokio::test(start_paused = true)]
async fn in_memory_the_release_follows() {
    let world = World::in_memory();
    let hold = some_hold();
    world.ask(acquire_request(hold, MINUTE)).await;
    assert!(!world.vacate(hold, SHORT).await);
    assert_eq!(world.release(hold).await, Presence::Present);
}
