//! A lock that is held for a minimum time, even after its release.

use std::time::Duration;

use tokio::task::yield_now;

use super::world::{
    MINUTE, UNANSWERED, World, acquire_request, entry_of, near, release_request, some_hold,
};
use crate::base::id::{HoldId, InboxId};
use crate::store::{AcquireReply, End, Leftovers, Presence};

on_every_store!(
    a_released_lock_stands_until_it_was_held_for_so_long,
    it_stands_for_longer_than_its_lease_if_it_has_to,
    it_ends_at_the_same_time_however_often_it_is_released,
    one_that_was_held_for_so_long_is_free,
    one_that_another_hold_has_is_left_alone,
    a_tombstone_refuses_an_acquire_that_comes_late,
    the_next_in_the_line_has_it_when_it_ends,
    what_comes_late_finds_no_hold,
);

impl World {
    async fn retain(&self, hold: HoldId, min_hold: Duration) -> Presence {
        let end = End::Retain(min_hold, Leftovers::default());
        self.end(release_request(hold, end)).await
    }
}

async fn a_released_lock_stands_until_it_was_held_for_so_long(world: World) {
    let hold = some_hold();
    world.take(hold, 9 * MINUTE).await;
    assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
    assert!(near(world.remaining().await, 4 * MINUTE));
    let other = world.acquire(some_hold(), MINUTE).await;
    assert!(matches!(other, AcquireReply::Busy { .. }), "{other:?}");
    world.pass(5 * MINUTE).await;
    world.take(some_hold(), MINUTE).await;
}

async fn it_stands_for_longer_than_its_lease_if_it_has_to(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
    assert!(near(world.remaining().await, 4 * MINUTE));
}

/// Its end is counted from its token, and not from the request.
async fn it_ends_at_the_same_time_however_often_it_is_released(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    for _ in 0..3 {
        assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
        assert!(near(world.remaining().await, 4 * MINUTE));
    }
    world.pass(5 * MINUTE).await;
    assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
}

async fn one_that_was_held_for_so_long_is_free(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    assert_eq!(world.retain(hold, Duration::ZERO).await, Presence::Present);
    // A server counts whole milliseconds, so the lock may be held for the rest of one.
    while world.inspect().await.is_some() {
        yield_now().await;
    }
}

async fn one_that_another_hold_has_is_left_alone(world: World) {
    let (hold, other) = (some_hold(), some_hold());
    world.take(hold, MINUTE).await;
    assert_eq!(world.retain(other, 9 * MINUTE).await, Presence::Gone);
    assert!(near(world.remaining().await, MINUTE));
    assert_eq!(world.holders().await, [(hold.to_string(), 1)]);
}

async fn a_tombstone_refuses_an_acquire_that_comes_late(world: World) {
    let hold = some_hold();
    world.take(hold, 9 * MINUTE).await;
    let request = release_request(hold, End::Retain(MINUTE, UNANSWERED));
    assert_eq!(world.end(request).await, Presence::Present);
    let late = acquire_request(hold, 9 * MINUTE);
    assert_eq!(world.ask(late).await, AcquireReply::Ended);
    assert!(near(world.remaining().await, MINUTE));
}

async fn the_next_in_the_line_has_it_when_it_ends(world: World) {
    let (hold, next) = (some_hold(), some_hold());
    let entry = entry_of(InboxId::new());
    world.take(hold, 9 * MINUTE).await;
    world.wait(next, 9 * MINUTE, entry).await;
    assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
    world.wait(next, 9 * MINUTE, entry).await;
    world.pass(5 * MINUTE).await;
    let had = world.queue(next, 9 * MINUTE, entry).await;
    assert!(matches!(had, AcquireReply::Held { .. }), "{had:?}");
}

/// A request of the hold that was delayed in the network.
async fn what_comes_late_finds_no_hold(world: World) {
    let hold = some_hold();
    world.take(hold, 9 * MINUTE).await;
    assert_eq!(world.depth(hold, 3, 1).await, Presence::Present);
    assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
    assert_eq!(world.holders().await, [(hold.kept(), 1)]);
    for _ in 0..2 {
        assert_eq!(world.renew(hold, 50 * MINUTE).await, Presence::Gone);
        assert_eq!(world.depth(hold, 2, 1).await, Presence::Gone);
        let entry = entry_of(InboxId::new());
        let again = world.queue(hold, 50 * MINUTE, entry).await;
        assert!(matches!(again, AcquireReply::Busy { .. }), "{again:?}");
        assert!(near(world.remaining().await, 4 * MINUTE));
        assert_eq!(world.release(hold).await, Presence::Gone);
        assert_eq!(world.retain(hold, 4 * MINUTE).await, Presence::Present);
    }
    let seen = world.seen().await;
    assert!(world.force_release(seen).await, "it can be ended by force");
}
