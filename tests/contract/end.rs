//! The end of a hold: released by itself, or by force.

use super::world::{MINUTE, World, field_of, some_hold};
use crate::store::{AcquireReply, Presence, Seen};

on_every_store!(
    a_release_frees_the_lock_at_any_depth,
    a_second_release_finds_the_hold_gone,
    the_release_of_another_hold_changes_nothing,
    a_late_release_does_not_touch_the_next_holder,
    a_hold_that_is_nowhere_can_be_buried,
    an_answered_acquire_that_comes_again_takes_the_lock,
    a_release_after_the_lease_finds_the_hold_gone,
    a_free_lock_has_nothing_to_show,
    force_frees_the_lock_that_was_seen,
    force_leaves_a_later_holder_alone,
    force_leaves_a_later_acquisition_of_the_same_hold_alone,
    force_finds_nothing_at_a_free_lock,
    the_holder_learns_of_the_force,
);

async fn a_release_frees_the_lock_at_any_depth(world: World) {
    let (first, next) = (some_hold(), some_hold());
    world.take(first, MINUTE).await;
    world.depth(first, 5, 1).await;
    assert_eq!(world.release(first).await, Presence::Present);
    assert_eq!(world.inspect().await, None);
    world.take(next, MINUTE).await;
}

async fn a_second_release_finds_the_hold_gone(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    assert_eq!(world.bury(hold).await, Presence::Present);
    assert_eq!(world.bury(hold).await, Presence::Gone);
    assert_eq!(world.release(hold).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
}

async fn the_release_of_another_hold_changes_nothing(world: World) {
    let (holder, other) = (some_hold(), some_hold());
    world.take(holder, MINUTE).await;
    world.depth(holder, 2, 1).await;
    let before = world.seen().await;
    assert_eq!(world.release(other).await, Presence::Gone);
    assert_eq!(world.bury(other).await, Presence::Gone);
    assert_eq!(world.seen().await, before);
    assert_eq!(world.holders().await, [(holder.to_string(), 2)]);
}

async fn a_late_release_does_not_touch_the_next_holder(world: World) {
    let (first, next) = (some_hold(), some_hold());
    world.take(first, MINUTE).await;
    world.release(first).await;
    world.take(next, MINUTE).await;
    assert_eq!(world.release(first).await, Presence::Gone);
    assert_eq!(world.holders().await, [(next.to_string(), 1)]);
}

async fn a_hold_that_is_nowhere_can_be_buried(world: World) {
    let hold = some_hold();
    assert_eq!(world.bury(hold).await, Presence::Gone);
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);
    assert_eq!(world.inspect().await, None);
}

/// The exception to P8: the end of a hold leaves a tombstone only where an acquire was not answered.
async fn an_answered_acquire_that_comes_again_takes_the_lock(world: World) {
    let (hold, next) = (some_hold(), some_hold());
    world.take(hold, MINUTE).await;
    world.release(hold).await;
    world.take(hold, MINUTE).await;
    assert!(world.is_held(hold, MINUTE).await);
    world.pass(2 * MINUTE).await;
    world.take(next, MINUTE).await;
}

async fn a_release_after_the_lease_finds_the_hold_gone(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(world.release(hold).await, Presence::Gone);
}

async fn a_free_lock_has_nothing_to_show(world: World) {
    assert_eq!(world.inspect().await, None);
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.release(hold).await;
    assert_eq!(world.inspect().await, None);
}

async fn force_frees_the_lock_that_was_seen(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    let seen = world.seen().await;
    // It need not stand as it was seen, as long as it is the same acquisition.
    world.depth(hold, 3, 1).await;
    world.renew(hold, 5 * MINUTE).await;
    assert!(world.force_release(seen.clone()).await);
    assert_eq!(world.inspect().await, None);
    assert!(!world.force_release(seen).await);
}

async fn force_leaves_a_later_holder_alone(world: World) {
    let (first, next) = (some_hold(), some_hold());
    world.take(first, MINUTE).await;
    let seen = world.seen().await;
    world.release(first).await;
    world.take(next, MINUTE).await;
    let token = world.seen().await.token;
    assert!(!world.force_release(seen.clone()).await);
    // Neither the token alone nor the holder alone will do.
    let field = seen.field;
    assert!(!world.force_release(Seen { field, token }).await);
    let (field, token) = (field_of(next), seen.token);
    assert!(!world.force_release(Seen { field, token }).await);
    assert_eq!(world.holders().await, [(next.to_string(), 1)]);
}

async fn force_leaves_a_later_acquisition_of_the_same_hold_alone(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    let seen = world.seen().await;
    world.release(hold).await;
    world.take(hold, MINUTE).await;
    assert!(!world.force_release(seen).await);
    assert_eq!(world.holders().await, [(hold.to_string(), 1)]);
}

async fn force_finds_nothing_at_a_free_lock(world: World) {
    world.take(some_hold(), MINUTE).await;
    let seen = world.seen().await;
    world.pass(2 * MINUTE).await;
    assert!(!world.force_release(seen).await);
}

async fn the_holder_learns_of_the_force(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.force_release(world.seen().await).await;
    assert_eq!(world.renew(hold, MINUTE).await, Presence::Gone);
    assert_eq!(world.depth(hold, 2, 1).await, Presence::Gone);
    assert_eq!(world.release(hold).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
}
