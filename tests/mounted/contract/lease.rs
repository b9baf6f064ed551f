//! The renewal of a lease.

use super::world::{MINUTE, World, near, some_hold};
use crate::store::Presence;

on_every_store!(
    a_renewed_lease_lasts_its_ttl_from_the_renewal,
    a_renewal_never_shortens_the_lease,
    a_hold_lives_as_long_as_it_is_renewed,
    a_lease_that_ran_out_cannot_be_renewed,
    the_renewal_of_another_hold_changes_nothing,
);

async fn a_renewed_lease_lasts_its_ttl_from_the_renewal(world: World) {
    let hold = some_hold();
    world.take(hold, 3 * MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(world.renew(hold, 3 * MINUTE).await, Presence::Present);
    assert!(near(world.remaining().await, 3 * MINUTE));
}

async fn a_renewal_never_shortens_the_lease(world: World) {
    let hold = some_hold();
    world.take(hold, 3 * MINUTE).await;
    assert_eq!(world.renew(hold, MINUTE).await, Presence::Present);
    assert!(near(world.remaining().await, 3 * MINUTE));
}

async fn a_hold_lives_as_long_as_it_is_renewed(world: World) {
    let hold = some_hold();
    let token = world.take(hold, 3 * MINUTE).await;
    world.depth(hold, 2, 1).await;
    // This is beyond the life of everything that is kept without being used.
    for _ in 0..15 {
        world.pass(2 * MINUTE).await;
        assert_eq!(world.renew(hold, 3 * MINUTE).await, Presence::Present);
    }
    assert_eq!(world.seen().await.token, Some(token));
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
    world.depth(hold, 3, 2).await;
    world.depth(hold, 2, 1).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
}

async fn a_lease_that_ran_out_cannot_be_renewed(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(world.renew(hold, MINUTE).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
}

async fn the_renewal_of_another_hold_changes_nothing(world: World) {
    let (holder, other) = (some_hold(), some_hold());
    assert_eq!(world.renew(other, MINUTE).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);
    world.take(holder, MINUTE).await;
    assert_eq!(world.renew(other, 9 * MINUTE).await, Presence::Gone);
    assert_eq!(world.holders().await, [(holder.to_string(), 1)]);
    assert!(near(world.remaining().await, MINUTE));
}
