//! The lock moves to the process that has waited longest.

use std::time::Duration;

use super::world::{FULL, GRANT, MINUTE, World, release_request, some_hold, some_waiter};
use crate::store::{AcquireReply, Presence, ReleaseKind};

on_every_store!(
    a_repeated_release_changes_nothing,
    a_lock_that_moved_to_a_dead_process_is_free_after_its_lease,
    a_repeated_acquire_or_a_renewal_extends_a_granted_lease,
);

const TTL: Duration = MINUTE.saturating_mul(9);

async fn a_repeated_release_changes_nothing(world: World) {
    let (hold, first, second) = (some_hold(), some_waiter(), some_waiter());
    for end in [ReleaseKind::Short, FULL] {
        world.take(hold, TTL).await;
        world.wait(first.0, TTL, first.1).await;
        world.wait(second.0, TTL, second.1).await;
        let request = release_request(hold, end);
        assert_eq!(world.end(request).await, Presence::Present);
        let (seen, waiting) = (world.seen().await, world.waiting().await);
        for _ in 0..2 {
            assert_eq!(world.end(request).await, Presence::Gone);
            assert_eq!(world.seen().await, seen);
            assert_eq!(world.waiting().await, waiting);
        }
        world.release(first.0).await;
        world.release(second.0).await;
        assert_eq!(world.inspect().await, None);
    }
}

async fn a_lock_that_moved_to_a_dead_process_is_free_after_its_lease(world: World) {
    let (holder, (next, entry), last) = (some_hold(), some_waiter(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(next, TTL, entry).await;
    world.wait(last.0, TTL, last.1).await;
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
    world.pass(GRANT + MINUTE).await;
    assert_eq!(world.inspect().await, None);
    assert_eq!(world.renew(next, TTL).await, Presence::Gone);
    let answer = world.queue(last.0, TTL, last.1).await;
    assert!(matches!(answer, AcquireReply::Held { .. }), "{answer:?}");
    assert!(world.is_held(last.0, TTL).await);
}

async fn a_repeated_acquire_or_a_renewal_extends_a_granted_lease(world: World) {
    let mut holder = some_hold();
    world.take(holder, TTL).await;
    for renews in [false, true] {
        let (next, entry) = some_waiter();
        world.wait(next, TTL, entry).await;
        world.release(holder).await;
        assert!(world.is_held(next, GRANT).await);
        if renews {
            assert_eq!(world.renew(next, TTL).await, Presence::Present);
        } else {
            let answer = world.queue(next, TTL, entry).await;
            assert!(matches!(answer, AcquireReply::Held { lease, .. } if lease == TTL));
        }
        assert!(world.is_held(next, TTL).await);
        assert_eq!(world.waiting().await, 0);
        holder = next;
    }
}
