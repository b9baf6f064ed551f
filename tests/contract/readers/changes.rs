//! The changes while a lock is shared: the downgrade, its depths, its limit, its end by force.

use super::super::world::{GRANT, MINUTE, World, near, some_hold, some_waiter};
use super::{TTL, share_request, token};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::option_types::Mode;
use crate::store::{DepthChange, Presence, QueueEntry, ShareRequest};

on_every_store!(
    a_downgrade_leaves_no_gap_and_lets_readers_in,
    a_downgrade_keeps_the_longer_lease,
    a_late_downgrade_finds_nothing,
    a_downgrade_brings_the_token_of_its_hold,
    a_hold_that_is_kept_before_its_downgrade_has_the_lock_alone,
    depth_counts_for_each_reader_and_lengthens_its_own_lease,
    a_limit_is_kept,
    a_permit_that_was_left_by_the_dead_goes_to_who_waited_first,
    a_keep_that_overtakes_a_downgrade_shortens_nothing,
    one_place_is_freed_by_each_that_leaves,
    force_ends_all_readers,
);

async fn a_downgrade_leaves_no_gap_and_lets_readers_in(world: World) {
    let writer = some_hold();
    let (reader, entry) = some_waiter();
    let (next, place) = some_waiter();
    let token = world.take(writer, TTL).await;
    world.read_later(&[reader], entry).await;
    world.wait(next, TTL, place).await;
    for _ in 0..2 {
        assert_eq!(world.downgrade(writer, TTL).await, Presence::Present);
        assert!(world.is_read_by(&[writer, reader]).await);
        assert_eq!(world.seen().await.token, Some(token));
    }
    world.unshare(writer, InboxId::new()).await;
    assert!(world.is_read_by(&[reader]).await);
    world.unshare(reader, InboxId::new()).await;
    assert!(world.is_held(next, GRANT).await);
}

async fn a_downgrade_keeps_the_longer_lease(world: World) {
    let [writer, reader] = [some_hold(), some_hold()];
    world.take(writer, TTL).await;
    world.downgrade(writer, MINUTE).await;
    assert!(near(world.readers().await[0].1, TTL));
    world.read(&[reader], 2 * TTL).await;
    // The request is repeated, because there was no response.
    world.downgrade(writer, MINUTE).await;
    assert!(near(world.readers().await[0].1, TTL));
}

async fn a_late_downgrade_finds_nothing(world: World) {
    let [writer, next] = [some_hold(), some_hold()];
    world.take(writer, TTL).await;
    world.unshare(writer, InboxId::new()).await;
    assert_eq!(world.downgrade(writer, TTL).await, Presence::Gone);
    world.take(next, TTL).await;
    assert_eq!(world.downgrade(writer, TTL).await, Presence::Gone);
    assert!(world.is_held(next, TTL).await);
}

async fn a_downgrade_brings_the_token_of_its_hold(world: World) {
    let [writer, reader, next] = [some_hold(), some_hold(), some_hold()];
    let first = world.take(writer, TTL).await;
    world.pass(MINUTE).await;
    // This is like the token of the third call graph that continues the hold in memory.
    let later = FencingToken(first.0 + 2);
    world.downgrade_with(writer, TTL, later).await;
    // A copy of an earlier request arrives late.
    world.downgrade_with(writer, TTL, first).await;
    assert_eq!(world.read(&[reader], TTL).await, later);
    for hold in [writer, reader] {
        world.unshare(hold, InboxId::new()).await;
    }
    assert!(world.take(next, TTL).await > later);
}

async fn a_hold_that_is_kept_before_its_downgrade_has_the_lock_alone(world: World) {
    let [writer, reader] = [some_hold(), some_hold()];
    world.take(writer, TTL).await;
    assert!(world.keep(&[writer], 2 * TTL).await.is_empty());
    assert!(world.is_held(writer, 2 * TTL).await);
    let mode = world.inspect().await.map(|shown| shown.mode);
    assert_eq!(mode, Some(Mode::Exclusive));
    let replies = world.share_as(share_request(&[reader], TTL, None)).await;
    assert_eq!(token(&replies[0]), None);
    world.downgrade(writer, TTL).await;
    assert!(near(world.readers().await[0].1, 2 * TTL));
    world.read(&[reader], TTL).await;
}

async fn depth_counts_for_each_reader_and_lengthens_its_own_lease(world: World) {
    let [one, other] = [some_hold(), some_hold()];
    world.read(&[one, other], 3 * MINUTE).await;
    let change = DepthChange {
        hold: one,
        mode: Mode::Shared,
        target: 2,
        seq: 1,
        ttl: TTL,
        lengthen: true,
    };
    assert_eq!(world.change(change).await, Presence::Present);
    assert_eq!(
        world.holders().await,
        [(one.to_string(), 2), (other.to_string(), 1)]
    );
    world.pass(4 * MINUTE).await;
    world.keep(&[one], MINUTE).await;
    assert_eq!(world.holders().await, [(one.to_string(), 2)]);
}

fn limited(hold: HoldId, limit: u32, entry: Option<QueueEntry>) -> ShareRequest {
    ShareRequest {
        limit: Some(limit),
        ..share_request(&[hold], TTL, entry)
    }
}

async fn a_limit_is_kept(world: World) {
    let holds = [some_hold(), some_hold(), some_hold()];
    for hold in &holds[..2] {
        let replies = world.share_as(limited(*hold, 2, None)).await;
        assert!(token(&replies[0]).is_some());
    }
    let replies = world.share_as(limited(holds[2], 2, None)).await;
    assert!(token(&replies[0]).is_none());
    // The limit of each requester counts for itself.
    let replies = world.share_as(limited(holds[2], 3, None)).await;
    assert!(token(&replies[0]).is_some());
    // The requests of the readers inside are repeated.
    let replies = world.share_as(limited(holds[0], 1, None)).await;
    assert!(token(&replies[0]).is_some());
}

async fn one_place_is_freed_by_each_that_leaves(world: World) {
    let holds = [some_hold(), some_hold()];
    let waiters = [some_waiter(), some_waiter(), some_waiter()];
    for hold in holds {
        world.share_as(limited(hold, 2, None)).await;
    }
    for (hold, entry) in waiters {
        let replies = world.share_as(limited(hold, 2, Some(entry))).await;
        assert!(token(&replies[0]).is_none());
    }
    world.unshare(holds[0], InboxId::new()).await;
    assert!(world.is_read_by(&[holds[1], waiters[0].0]).await);
    world.unshare(holds[1], InboxId::new()).await;
    assert!(world.is_read_by(&[waiters[0].0, waiters[1].0]).await);
    assert_eq!(world.waiting().await, 1);
}

async fn force_ends_all_readers(world: World) {
    let holds = [some_hold(), some_hold()];
    let (writer, entry) = some_waiter();
    world.read(&holds, TTL).await;
    world.wait(writer, TTL, entry).await;
    let seen = world.seen().await;
    assert!(world.force_release(seen.clone()).await);
    assert!(world.is_held(writer, GRANT).await);
    assert!(!world.force_release(seen).await);
}

/// The requester goes before writers, but not before another permit that waits.
async fn a_permit_that_was_left_by_the_dead_goes_to_who_waited_first(world: World) {
    let [one, dead, late] = [some_hold(), some_hold(), some_hold()];
    let (first, entry) = some_waiter();
    world.share_as(limited(one, 2, None)).await;
    let short = ShareRequest {
        ttl: MINUTE,
        ..limited(dead, 2, None)
    };
    world.share_as(short).await;
    world.share_as(limited(first, 2, Some(entry))).await;
    world.pass(2 * MINUTE).await;
    world.share_as(limited(late, 2, None)).await;
    assert!(world.is_read_by(&[one, first]).await);
}

/// What the holder believes about its lease remains true, whichever of the two is executed first.
async fn a_keep_that_overtakes_a_downgrade_shortens_nothing(world: World) {
    let hold = some_hold();
    world.take(hold, TTL).await;
    world.keep(&[hold], MINUTE).await;
    let shown = world.inspect().await.expect("a held lock");
    let left = shown.remaining.expect("a lease");
    assert!(left > TTL - MINUTE, "{left:?}");
}
