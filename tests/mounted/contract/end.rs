//! The end of a hold, by its own release or by force.

use super::world::{
    GRANT, MINUTE, NESTED, UNANSWERED, World, field_of, release_request, some_hold, some_waiter,
};
use crate::base::id::HoldId;
use crate::store::{AcquireReply, Presence, ReleaseKind, ReleaseRequest, SeenHolders};

on_every_store!(
    a_release_frees_the_lock_at_any_depth,
    a_second_release_finds_the_hold_gone,
    the_release_of_another_hold_changes_nothing,
    an_answered_acquire_that_comes_again_takes_the_lock,
    a_short_release_frees_the_lock_or_moves_it_on,
    a_short_release_of_a_hold_that_is_gone_changes_nothing,
    a_release_after_a_loss_also_leaves_the_queue,
    a_release_with_a_tombstone_also_leaves_the_queue,
    the_numbers_of_the_depth_changes_go_with_their_hold,
    force_frees_the_lock_that_was_seen,
    force_leaves_a_later_holder_alone,
    force_leaves_a_holder_alone_that_was_not_seen,
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

/// The exception to P8: the end of a hold leaves a tombstone only if an acquire was not answered.
async fn an_answered_acquire_that_comes_again_takes_the_lock(world: World) {
    let (hold, next) = (some_hold(), some_hold());
    world.take(hold, MINUTE).await;
    world.release(hold).await;
    world.take(hold, MINUTE).await;
    assert!(world.is_held(hold, MINUTE).await);
    world.pass(2 * MINUTE).await;
    world.take(next, MINUTE).await;
}

/// The hold can have left nothing except its field.
async fn short(world: &World, hold: HoldId) -> Presence {
    let request = release_request(hold, ReleaseKind::Short);
    world.end(request).await
}

async fn a_short_release_frees_the_lock_or_moves_it_on(world: World) {
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    world.take(hold, MINUTE).await;
    assert_eq!(short(&world, hold).await, Presence::Present);
    assert_eq!(world.inspect().await, None);
    world.take(hold, MINUTE).await;
    world.wait(next, MINUTE, entry).await;
    assert_eq!(short(&world, hold).await, Presence::Present);
    assert!(world.is_held(next, GRANT).await);
}

async fn a_short_release_of_a_hold_that_is_gone_changes_nothing(world: World) {
    let (holder, gone, (next, entry)) = (some_hold(), some_hold(), some_waiter());
    assert_eq!(short(&world, gone).await, Presence::Gone);
    world.take(holder, MINUTE).await;
    assert_eq!(short(&world, gone).await, Presence::Gone);
    world.wait(next, MINUTE, entry).await;
    assert_eq!(short(&world, gone).await, Presence::Gone);
    assert!(world.is_held(holder, MINUTE).await);
    assert_eq!(world.waiting().await, 1);
}

/// An acquire that was given up, and is executed after the lease has expired and another hold has the lock.
async fn a_release_after_a_loss_also_leaves_the_queue(world: World) {
    let ((hold, entry), other) = (some_waiter(), some_hold());
    world.take(hold, MINUTE).await;
    world.pass(2 * MINUTE).await;
    world.take(other, MINUTE).await;
    for _ in 0..2 {
        world.wait(hold, MINUTE, entry).await;
        assert_eq!(world.waiting().await, 1);
        assert_eq!(world.leave(hold, entry.inbox).await, Presence::Gone);
        assert_eq!(world.waiting().await, 0);
    }
    world.release(other).await;
    assert_eq!(world.inspect().await, None);
}

async fn a_release_with_a_tombstone_also_leaves_the_queue(world: World) {
    let (holder, (hold, entry), (next, after)) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, MINUTE).await;
    world.wait(hold, MINUTE, entry).await;
    let request = ReleaseRequest {
        inbox: entry.inbox,
        ..release_request(hold, ReleaseKind::Full(UNANSWERED))
    };
    for _ in 0..2 {
        assert_eq!(world.end(request).await, Presence::Gone);
        assert_eq!(world.waiting().await, 0);
        let late = world.queue(hold, MINUTE, entry).await;
        assert_eq!(late, AcquireReply::Ended);
    }
    // For the others it is as if the hold did not exist: they wait, the lock moves to them, and they get messages.
    world.wait(next, MINUTE, after).await;
    assert_eq!(world.waiting().await, 1);
    assert_eq!(world.release(holder).await, Presence::Present);
    assert!(world.is_held(next, GRANT).await);
    assert_eq!(world.release(next).await, Presence::Present);
    world.take(holder, MINUTE).await;
}

async fn the_numbers_of_the_depth_changes_go_with_their_hold(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.depth(hold, 2, 7).await;
    let request = release_request(hold, ReleaseKind::Full(NESTED));
    assert_eq!(world.end(request).await, Presence::Present);
    // A change that arrives late finds nothing, and leaves nothing.
    assert_eq!(world.depth(hold, 3, 8).await, Presence::Gone);
    world.take(hold, MINUTE).await;
    world.depth(hold, 4, 1).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 4)]);
}

async fn force_frees_the_lock_that_was_seen(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    let seen = world.seen().await;
    // It may have changed since it was seen, as long as it is the same acquisition.
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
    // Neither the token alone nor the holder alone suffices.
    let fields = seen.fields;
    assert!(!world.force_release(SeenHolders { fields, token }).await);
    let (fields, token) = (vec![field_of(next)], seen.token);
    assert!(!world.force_release(SeenHolders { fields, token }).await);
    assert_eq!(world.holders().await, [(next.to_string(), 1)]);
}

async fn force_leaves_a_holder_alone_that_was_not_seen(world: World) {
    let (first, next) = (some_hold(), some_hold());
    world.read(&[first], MINUTE).await;
    let seen = world.seen().await;
    world.read(&[next], MINUTE).await;
    // The lock outlives the leases of its readers.
    world.renew(next, 5 * MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert!(world.force_release(seen).await);
    assert_eq!(world.holders().await, [(next.to_string(), 1)]);
}
