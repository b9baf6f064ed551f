//! The changes while a lock is shared: its depths, its limit, its end by force.

use super::super::world::{GRANT, MINUTE, World, some_hold, some_waiter};
use super::{TTL, share_request, token};
use crate::base::id::{HoldId, InboxId};
use crate::base::options::Mode;
use crate::store::{AcquireSharedRequest, DepthChange, Presence, QueueEntry};

on_every_store!(
    depth_counts_for_each_reader_and_lengthens_its_own_lease,
    a_limit_is_kept,
    a_permit_of_a_dead_process_goes_to_the_first_waiter,
    each_reader_that_leaves_frees_one_permit,
    force_ends_all_readers,
);

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

fn limited(hold: HoldId, limit: u32, entry: Option<QueueEntry>) -> AcquireSharedRequest {
    AcquireSharedRequest {
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

async fn each_reader_that_leaves_frees_one_permit(world: World) {
    let holds = [some_hold(), some_hold()];
    let waiters = [some_waiter(), some_waiter(), some_waiter()];
    for hold in holds {
        world.share_as(limited(hold, 2, None)).await;
    }
    for (hold, entry) in waiters {
        let replies = world.share_as(limited(hold, 2, Some(entry))).await;
        assert!(token(&replies[0]).is_none());
    }
    world.release_shared(holds[0], InboxId::new()).await;
    assert!(world.is_read_by(&[holds[1], waiters[0].0]).await);
    world.release_shared(holds[1], InboxId::new()).await;
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
async fn a_permit_of_a_dead_process_goes_to_the_first_waiter(world: World) {
    let [one, dead, late] = [some_hold(), some_hold(), some_hold()];
    let (first, entry) = some_waiter();
    world.share_as(limited(one, 2, None)).await;
    let short = AcquireSharedRequest {
        ttl: MINUTE,
        ..limited(dead, 2, None)
    };
    world.share_as(short).await;
    world.share_as(limited(first, 2, Some(entry))).await;
    world.pass(2 * MINUTE).await;
    world.share_as(limited(late, 2, None)).await;
    assert!(world.is_read_by(&[one, first]).await);
}
