//! The lock moves: to a hold of the same process, or to the process that has waited longest.

use std::time::Duration;

use super::world::{
    FULL, GRANT, MINUTE, UNANSWERED, World, field_of, near, release_request, some_hold,
    some_waiter, successor,
};
use crate::store::{AcquireReply, End, Order, Presence, ReleaseReply, Seen, Successor};

on_every_store!(
    a_successor_has_the_lock_with_its_own_ttl,
    a_successor_goes_before_the_queue,
    a_successor_behind_an_empty_queue_takes_the_lock,
    a_successor_behind_a_queue_stands_at_its_end,
    a_release_moves_the_lock_to_the_head_of_the_queue,
    a_repeated_release_changes_nothing,
    a_release_that_finds_nothing_gives_its_successor_nothing,
    a_release_with_a_successor_buries_its_hold,
    force_moves_the_lock_on,
    a_lock_that_moved_to_a_dead_process_is_free_after_its_lease,
    the_grantee_lengthens_its_lease_when_it_asks_or_renews,
);

const TTL: Duration = MINUTE.saturating_mul(9);

fn behind_the_queue(next: Successor) -> Successor {
    Successor {
        order: Order::QueueFirst,
        ..next
    }
}

/// The outcome for a successor that got the lock.
fn lease(released: ReleaseReply) -> Option<Duration> {
    match released.successor {
        Some(AcquireReply::Held { lease, .. }) => Some(lease),
        _ => None,
    }
}

/// The remaining wait of a successor that is in the queue.
pub(super) fn remaining(released: ReleaseReply) -> Option<Duration> {
    match released.successor {
        Some(AcquireReply::Busy { remaining, .. }) => remaining,
        _ => None,
    }
}

async fn a_successor_has_the_lock_with_its_own_ttl(world: World) {
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    let token = world.take(hold, MINUTE).await;
    world.depth(hold, 3, 7).await;
    let released = world.hand_over(hold, successor(next, TTL, entry)).await;
    assert_eq!(released.presence, Presence::Present);
    assert_eq!(lease(released), Some(TTL));
    assert!(world.is_held(next, TTL).await);
    assert!(world.seen().await.token > Some(token));
    // Its changes are counted from the beginning.
    world.depth(next, 2, 1).await;
    assert_eq!(world.holders().await, [(next.to_string(), 2)]);
}

async fn a_successor_goes_before_the_queue(world: World) {
    let (hold, (next, entry), other) = (some_hold(), some_waiter(), some_waiter());
    world.take(hold, MINUTE).await;
    world.wait(other.0, TTL, other.1).await;
    world.wait(next, TTL, entry).await;
    let released = world.hand_over(hold, successor(next, TTL, entry)).await;
    assert_eq!(lease(released), Some(TTL));
    assert!(world.is_held(next, TTL).await);
    // It no longer waits. The other one does.
    assert_eq!(world.waiting().await, 1);
    world.release(next).await;
    assert!(world.is_held(other.0, GRANT).await);
    assert_eq!(world.waiting().await, 0);
}

async fn a_successor_behind_an_empty_queue_takes_the_lock(world: World) {
    let (hold, (next, entry), (last, _), other) =
        (some_hold(), some_waiter(), some_waiter(), some_waiter());
    world.take(hold, MINUTE).await;
    let next = behind_the_queue(successor(next, TTL, entry));
    assert_eq!(lease(world.hand_over(hold, next).await), Some(TTL));
    assert!(world.is_held(next.hold, TTL).await);
    // It does not pass its own place at the head of the queue either.
    world.wait(last, TTL, entry).await;
    world.wait(other.0, TTL, other.1).await;
    let last = behind_the_queue(successor(last, TTL, entry));
    assert_eq!(lease(world.hand_over(next.hold, last).await), Some(TTL));
    assert!(world.is_held(last.hold, TTL).await);
    assert_eq!(world.waiting().await, 1);
}

async fn a_successor_behind_a_queue_stands_at_its_end(world: World) {
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    let (first, second) = (some_waiter(), some_waiter());
    world.take(hold, MINUTE).await;
    world.wait(first.0, TTL, first.1).await;
    world.wait(second.0, TTL, second.1).await;
    let next = behind_the_queue(successor(next, TTL, entry));
    let released = world.hand_over(hold, next).await;
    assert_eq!(released.presence, Presence::Present);
    assert!(remaining(released).is_some_and(|left| near(left, GRANT)));
    for holder in [first.0, second.0, next.hold] {
        assert!(world.is_held(holder, GRANT).await);
        world.release(holder).await;
    }
    assert_eq!(world.inspect().await, None);
}

async fn a_release_moves_the_lock_to_the_head_of_the_queue(world: World) {
    let (hold, (next, entry)) = (some_hold(), some_waiter());
    let token = world.take(hold, MINUTE).await;
    world.wait(next, TTL, entry).await;
    let released = world.end(release_request(hold, FULL)).await;
    let (presence, successor) = (Presence::Present, None);
    assert_eq!(
        (released.presence, released.successor),
        (presence, successor)
    );
    assert!(world.is_held(next, GRANT).await);
    assert!(world.seen().await.token > Some(token));
    assert_eq!(world.waiting().await, 0);
}

async fn a_repeated_release_changes_nothing(world: World) {
    let (hold, (next, entry), other) = (some_hold(), some_waiter(), some_waiter());
    for order in [Order::SuccessorFirst, Order::QueueFirst] {
        world.take(hold, TTL).await;
        world.wait(other.0, TTL, other.1).await;
        let next = Successor {
            order,
            ..successor(next, TTL, entry)
        };
        let first = world.hand_over(hold, next).await;
        assert_eq!(first.presence, Presence::Present);
        let (seen, waiting) = (world.seen().await, world.waiting().await);
        for _ in 0..2 {
            let again = world.hand_over(hold, next).await;
            let (presence, successor) = (Presence::Gone, None);
            assert_eq!((again.presence, again.successor), (presence, successor));
            assert_eq!(world.seen().await, seen);
            assert_eq!(world.waiting().await, waiting);
        }
        for holder in [next.hold, other.0, next.hold] {
            world.release(holder).await;
        }
        assert_eq!(world.inspect().await, None);
    }
}

async fn a_release_that_finds_nothing_gives_its_successor_nothing(world: World) {
    let (hold, (next, entry), other) = (some_hold(), some_waiter(), some_waiter());
    for next in [
        successor(next, TTL, entry),
        behind_the_queue(successor(next, TTL, entry)),
    ] {
        let (presence, successor) = (Presence::Gone, None);
        let released = world.hand_over(hold, next).await;
        assert_eq!(
            (released.presence, released.successor),
            (presence, successor)
        );
        assert_eq!(world.inspect().await, None);
        // It does not get the lock after the lease either, while others wait.
        world.take(hold, MINUTE).await;
        world.wait(other.0, TTL, other.1).await;
        world.pass(2 * MINUTE).await;
        let released = world.hand_over(hold, next).await;
        assert_eq!(
            (released.presence, released.successor),
            (presence, successor)
        );
        assert_eq!(world.inspect().await, None);
        world.leave(other.0, other.1.inbox).await;
    }
}

async fn a_release_with_a_successor_buries_its_hold(world: World) {
    let (hold, (next, entry), (last, _)) = (some_hold(), some_waiter(), some_waiter());
    let burying = |hold, next, entry| {
        let next = successor(next, TTL, entry);
        release_request(hold, End::HandTo(next, UNANSWERED))
    };
    world.take(hold, MINUTE).await;
    assert_eq!(
        lease(world.end(burying(hold, next, entry)).await),
        Some(TTL)
    );
    assert_eq!(world.acquire(hold, MINUTE).await, AcquireReply::Ended);
    assert!(world.is_held(next, TTL).await);
    // The same is true for one that only waits: a late request for it takes no place.
    let holder = next;
    let (left, entry) = some_waiter();
    world.wait(left, TTL, entry).await;
    assert!(remaining(world.end(burying(left, last, entry)).await).is_some());
    assert_eq!(world.queue(left, TTL, entry).await, AcquireReply::Ended);
    world.release(holder).await;
    assert!(world.is_held(last, GRANT).await);
}

async fn force_moves_the_lock_on(world: World) {
    let (holder, (next, entry)) = (some_hold(), some_waiter());
    world.take(holder, TTL).await;
    world.wait(next, TTL, entry).await;
    let seen = world.seen().await;
    let fields = vec![field_of(next)];
    let wrong = Seen {
        fields,
        ..seen.clone()
    };
    assert!(!world.force_release(wrong).await);
    assert!(world.is_held(holder, TTL).await);
    assert_eq!(world.waiting().await, 1);
    assert!(world.force_release(seen.clone()).await);
    assert!(world.is_held(next, GRANT).await);
    assert_eq!(world.waiting().await, 0);
    assert!(!world.force_release(seen).await);
    assert!(world.is_held(next, GRANT).await);
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

async fn the_grantee_lengthens_its_lease_when_it_asks_or_renews(world: World) {
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
