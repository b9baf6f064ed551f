//! The queue: one place for each process, in the order in which they joined.

use std::time::Duration;

use super::world::{GRANT, MINUTE, PLACE_LIFE, World, near, some_hold, some_waiter};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::{AcquireReply, Presence, QueueEntry};

on_every_store!(
    a_waiter_that_finds_the_lock_busy_enters_the_queue,
    processes_are_served_in_the_order_of_their_arrival,
    a_repeated_acquire_keeps_the_place_in_the_queue,
    a_new_local_head_takes_over_the_place,
    a_dead_process_is_passed_over_and_has_lost_its_place,
    a_queue_of_dead_processes_keeps_no_process_out,
    a_free_lock_moves_to_the_head_when_another_asks,
    the_head_takes_a_free_lock_itself,
    a_hold_that_has_the_lock_does_not_wait_for_it,
    a_hold_that_was_ended_does_not_enter_the_queue,
    the_queues_of_two_keys_are_independent,
);

const TTL: Duration = MINUTE.saturating_mul(9);
const LONG: Duration = MINUTE.saturating_mul(60);

fn waiters<const N: usize>() -> [(HoldId, QueueEntry); N] {
    std::array::from_fn(|_| some_waiter())
}

/// The holds that get the lock at each release, beginning with that of `holder`.
async fn order(world: &World, mut holder: HoldId) -> Vec<HoldId> {
    let mut order = Vec::new();
    loop {
        assert_eq!(world.release(holder).await, Presence::Present);
        let Some((next, _)) = world.holders().await.pop() else {
            return order;
        };
        holder = next.parse().expect("one of our holds");
        order.push(holder);
    }
}

fn is_busy(answer: AcquireReply, lease: Duration) -> bool {
    matches!(answer, AcquireReply::Busy { remaining: Some(left), .. } if near(left, lease))
}

async fn a_waiter_that_finds_the_lock_busy_enters_the_queue(world: World) {
    world.take(some_hold(), TTL).await;
    let before = world.seen().await;
    for (waiting, (hold, entry)) in (1..).zip(waiters::<3>()) {
        let answer = world.queue(hold, MINUTE, entry).await;
        assert!(is_busy(answer, TTL), "{answer:?}");
        assert_eq!(world.waiting().await, waiting);
    }
    assert_eq!(world.seen().await, before);
    assert!(near(world.remaining().await, TTL));
}

async fn processes_are_served_in_the_order_of_their_arrival(world: World) {
    let holder = some_hold();
    world.take(holder, TTL).await;
    let entries = waiters::<12>();
    for (hold, entry) in entries {
        world.wait(hold, TTL, entry).await;
    }
    assert_eq!(order(&world, holder).await, entries.map(|(hold, _)| hold));
}

async fn a_repeated_acquire_keeps_the_place_in_the_queue(world: World) {
    let holder = some_hold();
    world.take(holder, LONG).await;
    let [first, dead, last] = waiters();
    for (hold, entry) in [first, dead, last] {
        world.wait(hold, TTL, entry).await;
    }
    for _ in 0..3 {
        world.pass(PLACE_LIFE - 5 * MINUTE).await;
        world.wait(last.0, TTL, last.1).await;
        world.wait(first.0, TTL, first.1).await;
    }
    assert_eq!(world.waiting().await, 2);
    assert_eq!(order(&world, holder).await, [first.0, last.0]);
}

async fn a_new_local_head_takes_over_the_place(world: World) {
    let holder = some_hold();
    world.take(holder, TTL).await;
    let [mut first, other] = waiters();
    world.wait(first.0, TTL, first.1).await;
    world.wait(other.0, TTL, other.1).await;
    first.0 = some_hold();
    first.1.grant = 5 * MINUTE;
    world.wait(first.0, TTL, first.1).await;
    assert_eq!(world.waiting().await, 2);
    world.release(holder).await;
    assert!(world.is_held(first.0, 5 * MINUTE).await);
    assert_eq!(order(&world, first.0).await, [other.0]);
}

async fn a_dead_process_is_passed_over_and_has_lost_its_place(world: World) {
    let holder = some_hold();
    world.take(holder, LONG).await;
    let [mut dying, next, last] = waiters();
    dying.1.life = 3 * MINUTE;
    for (hold, entry) in [dying, next, last] {
        world.wait(hold, LONG, entry).await;
    }
    assert_eq!(world.waiting().await, 3);
    world.pass(5 * MINUTE).await;
    assert_eq!(world.waiting().await, 2);
    world.release(holder).await;
    assert!(world.is_held(next.0, GRANT).await);
    world.wait(dying.0, TTL, dying.1).await;
    assert_eq!(order(&world, next.0).await, [last.0, dying.0]);
}

async fn a_queue_of_dead_processes_keeps_no_process_out(world: World) {
    let (holder, next) = (some_hold(), some_hold());
    world.take(holder, LONG).await;
    for (hold, entry) in waiters::<3>() {
        world.wait(hold, TTL, entry).await;
    }
    world.pass(PLACE_LIFE + MINUTE).await;
    assert_eq!(world.release(holder).await, Presence::Present);
    assert_eq!(world.inspect().await, None);
    world.take(next, TTL).await;
    assert_eq!(world.waiting().await, 0);
}

async fn a_free_lock_moves_to_the_head_when_another_asks(world: World) {
    let [head, second] = waiters();
    for waits in [false, true] {
        world.take(some_hold(), MINUTE).await;
        world.wait(head.0, TTL, head.1).await;
        world.wait(second.0, TTL, second.1).await;
        world.pass(2 * MINUTE).await;
        assert_eq!(world.inspect().await, None);
        // It makes no difference whether the process itself waits, only that it is not the first.
        let answer = if waits {
            world.queue(second.0, TTL, second.1).await
        } else {
            world.acquire(some_hold(), TTL).await
        };
        assert!(is_busy(answer, GRANT), "{answer:?}");
        assert!(world.is_held(head.0, GRANT).await);
        assert_eq!(world.waiting().await, 1);
        assert_eq!(order(&world, head.0).await, [second.0]);
    }
}

async fn the_head_takes_a_free_lock_itself(world: World) {
    let [head, second] = waiters();
    world.take(some_hold(), MINUTE).await;
    world.wait(head.0, TTL, head.1).await;
    world.wait(second.0, TTL, second.1).await;
    world.pass(2 * MINUTE).await;
    let answer = world.queue(head.0, TTL, head.1).await;
    assert!(matches!(answer, AcquireReply::Held { lease, .. } if lease == TTL));
    assert!(world.is_held(head.0, TTL).await);
    assert_eq!(world.waiting().await, 1);
    assert_eq!(order(&world, head.0).await, [second.0]);
}

async fn a_hold_that_has_the_lock_does_not_wait_for_it(world: World) {
    let (hold, entry) = some_waiter();
    for _ in 0..2 {
        let answer = world.queue(hold, TTL, entry).await;
        assert!(matches!(answer, AcquireReply::Held { .. }), "{answer:?}");
        assert_eq!(world.waiting().await, 0);
    }
}

async fn a_hold_that_was_ended_does_not_enter_the_queue(world: World) {
    let (hold, entry) = some_waiter();
    world.take(some_hold(), TTL).await;
    world.bury(hold).await;
    assert_eq!(world.queue(hold, TTL, entry).await, AcquireReply::Ended);
    assert_eq!(world.waiting().await, 0);
}

async fn the_queues_of_two_keys_are_independent(mut world: World) {
    let (hold, entry) = some_waiter();
    world.take(some_hold(), TTL).await;
    world.wait(hold, TTL, entry).await;
    world.key = LockKey::new("app:", "order:2").expect("a valid key");
    let holder = some_hold();
    world.take(holder, TTL).await;
    assert_eq!(world.waiting().await, 0);
    assert_eq!(order(&world, holder).await, []);
}
