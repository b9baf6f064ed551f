//! The changes of the depth of a hold: to a target, in order, and never for a hold that is gone.

use super::world::{MINUTE, World, near, some_hold};
use crate::base::id::HoldId;
use crate::base::options::Mode;
use crate::store::{DepthChange, Presence};

on_every_store!(
    the_depth_goes_to_its_target_up_and_down,
    an_overtaken_change_is_answered_and_ignored,
    the_changes_of_each_hold_are_counted_anew,
    a_hold_that_is_gone_has_no_depth_to_change,
    a_change_leaves_the_lease_alone_unless_it_is_to_last_longer,
    a_change_never_shortens_the_lease,
    an_overtaken_change_does_not_touch_the_lease,
);

const fn lengthening(hold: HoldId, seq: u64, minutes: u32) -> DepthChange {
    DepthChange {
        hold,
        mode: Mode::Exclusive,
        target: 2,
        seq,
        ttl: MINUTE.saturating_mul(minutes),
        lengthen: true,
    }
}

async fn the_depth_goes_to_its_target_up_and_down(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    for (seq, target) in (1..).zip([2, 3, 200, 4, 1]) {
        assert_eq!(world.depth(hold, target, seq).await, Presence::Present);
        let depth = u64::from(target);
        assert_eq!(world.holders().await, [(hold.to_string(), depth)]);
    }
}

async fn an_overtaken_change_is_answered_and_ignored(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.depth(hold, 3, 5).await;
    // An earlier one, and the same one once more.
    for (target, seq) in [(2, 4), (1, 1), (3, 5), (9, 5)] {
        assert_eq!(world.depth(hold, target, seq).await, Presence::Present);
        assert_eq!(world.holders().await, [(hold.to_string(), 3)]);
    }
    // Numbers are compared as numbers: as texts, 10 comes before 5.
    world.depth(hold, 2, 10).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
}

async fn the_changes_of_each_hold_are_counted_anew(world: World) {
    let (first, next) = (some_hold(), some_hold());
    world.take(first, MINUTE).await;
    world.depth(first, 2, 9).await;
    world.release(first).await;
    world.take(next, MINUTE).await;
    assert_eq!(world.depth(next, 2, 1).await, Presence::Present);
    assert_eq!(world.holders().await, [(next.to_string(), 2)]);
}

async fn a_hold_that_is_gone_has_no_depth_to_change(world: World) {
    let (gone, holder) = (some_hold(), some_hold());
    assert_eq!(world.depth(gone, 2, 1).await, Presence::Gone);
    assert_eq!(world.inspect().await, None);

    world.take(gone, MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(world.depth(gone, 2, 1).await, Presence::Gone);

    let token = world.take(holder, MINUTE).await;
    assert_eq!(world.change(lengthening(gone, 9, 9)).await, Presence::Gone);
    assert_eq!(world.holders().await, [(holder.to_string(), 1)]);
    assert_eq!(world.seen().await.token, Some(token));
    assert!(near(world.remaining().await, MINUTE));
}

async fn a_change_leaves_the_lease_alone_unless_it_is_to_last_longer(world: World) {
    let hold = some_hold();
    let token = world.take(hold, 3 * MINUTE).await;
    world.pass(MINUTE).await;
    let mut change = lengthening(hold, 1, 5);
    change.lengthen = false;
    world.change(change).await;
    assert!(near(world.remaining().await, 2 * MINUTE));
    world.change(lengthening(hold, 2, 5)).await;
    assert!(near(world.remaining().await, 5 * MINUTE));
    assert_eq!(world.seen().await.token, Some(token));
}

async fn a_change_never_shortens_the_lease(world: World) {
    let hold = some_hold();
    world.take(hold, 3 * MINUTE).await;
    let change = lengthening(hold, 1, 1);
    assert_eq!(world.change(change).await, Presence::Present);
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
    assert!(near(world.remaining().await, 3 * MINUTE));
}

async fn an_overtaken_change_does_not_touch_the_lease(world: World) {
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    world.depth(hold, 2, 2).await;
    world.change(lengthening(hold, 1, 9)).await;
    assert!(near(world.remaining().await, MINUTE));
}
