//! The acquisition of a lock: free, busy, repeated, rejected. The tests also check the tokens.

use super::world::{MINUTE, World, acquire_request, holder, near, some_hold};
use crate::base::key::LockKey;
use crate::store::{Acquire, AcquireReply, Presence, TOMBSTONE_LIFE};

on_every_store!(
    a_free_lock_is_taken_once_at_depth_one,
    a_held_lock_is_busy_for_the_rest_of_the_lease,
    a_repeated_acquire_has_the_same_token_and_no_shorter_lease,
    a_repeated_acquire_does_not_change_the_depth,
    a_repeated_acquire_late_in_a_lease_has_the_same_token,
    an_acquire_that_arrives_after_the_end_of_its_hold_is_refused,
    a_tombstone_rejects_only_its_own_hold_on_its_own_key,
    a_tombstone_is_forgotten_after_its_life,
    tokens_grow_from_holder_to_holder,
);

async fn a_free_lock_is_taken_once_at_depth_one(world: World) {
    let hold = some_hold();
    let token = world.take(hold, MINUTE).await;
    let snapshot = world.inspect().await.expect("a held lock");
    assert_eq!(snapshot.holders, [holder(hold, 1)]);
    assert_eq!(snapshot.token, Some(token));
    assert!(snapshot.remaining.is_some_and(|left| near(left, MINUTE)));
}

async fn a_held_lock_is_busy_for_the_rest_of_the_lease(world: World) {
    world.take(some_hold(), 3 * MINUTE).await;
    world.pass(MINUTE).await;
    match world.acquire(some_hold(), 9 * MINUTE).await {
        AcquireReply::Busy {
            remaining: Some(left),
            ..
        } => assert!(near(left, 2 * MINUTE), "{left:?}"),
        other => panic!("{other:?}"),
    }
}

async fn a_repeated_acquire_has_the_same_token_and_no_shorter_lease(world: World) {
    let hold = some_hold();
    let token = world.take(hold, 3 * MINUTE).await;
    for (ttl, lease) in [(MINUTE, 3), (5 * MINUTE, 5), (2 * MINUTE, 5)] {
        let lease = lease * MINUTE;
        match world.acquire(hold, ttl).await {
            AcquireReply::Held {
                token: again,
                lease: left,
                ..
            } => assert!(again == token && near(left, lease), "{again} {left:?}"),
            other => panic!("{other:?}"),
        }
        assert!(near(world.remaining().await, lease));
    }
}

async fn a_repeated_acquire_does_not_change_the_depth(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.depth(hold, 4, 7).await;
    world.take(hold, MINUTE).await;
    // It does not forget either which changes of the depth have been made.
    world.depth(hold, 2, 6).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 4)]);
}

async fn a_repeated_acquire_late_in_a_lease_has_the_same_token(world: World) {
    let (hold, long) = (some_hold(), 60 * MINUTE);
    let token = world.take(hold, long).await;
    world.depth(hold, 3, 2).await;
    // This is a renewal that was sent before the lease was lengthened, and arrives late.
    assert_eq!(world.renew(hold, MINUTE).await, Presence::Present);
    world.pass(50 * MINUTE).await;
    assert_eq!(world.seen().await.token, Some(token));
    match world.acquire(hold, MINUTE).await {
        AcquireReply::Held {
            token: again,
            lease,
            ..
        } => assert!(again == token && near(lease, 10 * MINUTE), "{lease:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
}

async fn an_acquire_that_arrives_after_the_end_of_its_hold_is_refused(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    assert_eq!(world.bury(hold).await, Presence::Present);
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);
    assert_eq!(world.inspect().await, None);
    // This is also so while another hold has the lock.
    world.take(some_hold(), MINUTE).await;
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);
}

async fn a_tombstone_rejects_only_its_own_hold_on_its_own_key(world: World) {
    let hold = some_hold();
    world.bury(hold).await;
    let other = LockKey::new("app:", "other").expect("a valid key");
    let request = acquire_request(hold, MINUTE);
    let key = other;
    let elsewhere = world.send(Acquire { key, request }).await;
    assert!(
        matches!(elsewhere, AcquireReply::Held { .. }),
        "{elsewhere:?}"
    );
    world.take(some_hold(), MINUTE).await;
}

async fn a_tombstone_is_forgotten_after_its_life(world: World) {
    let hold = some_hold();
    assert_eq!(world.bury(hold).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
    world.pass(TOMBSTONE_LIFE - MINUTE).await;
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);
    world.pass(2 * MINUTE).await;
    world.take(hold, MINUTE).await;
}

async fn tokens_grow_from_holder_to_holder(world: World) {
    let (first, again) = (some_hold(), some_hold());
    let mut tokens = vec![world.take(first, MINUTE).await];
    world.release(first).await;
    tokens.push(world.take(again, MINUTE).await);
    world.release(again).await;
    // The same hold a second time is a new acquisition.
    tokens.push(world.take(again, MINUTE).await);
    world.pass(2 * MINUTE).await;
    tokens.push(world.take(some_hold(), MINUTE).await);
    assert!(world.force_release(world.seen().await).await);
    tokens.push(world.take(some_hold(), MINUTE).await);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
