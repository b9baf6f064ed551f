//! A process that has the lock gets a message when another process begins to wait.

use std::time::Duration;

use super::inbox::Inbox;
use super::world::{MINUTE, World, entry_of, some_hold, some_waiter};
use crate::base::id::HoldId;
use crate::store::{AcquireReply, QueueEntry};

on_every_store!(
    the_holder_gets_a_message_about_the_first_waiter,
    the_holder_gets_a_message_about_a_waiting_reader,
    a_waiter_of_the_same_process_sends_no_message,
    a_later_holder_gets_a_message_in_its_turn,
    an_answer_says_whether_another_process_may_wait,
);

const TTL: Duration = MINUTE.saturating_mul(9);

/// The number of messages to the process of an inbox since the last call.
async fn told(world: &World, inbox: &mut Inbox) -> usize {
    let moved = world.received(inbox).await;
    assert!(moved.is_empty(), "{moved:?}");
    let keys = std::mem::take(&mut inbox.contended);
    assert!(keys.iter().all(|key| key == world.key.as_str()), "{keys:?}");
    keys.len()
}

/// A hold of the process of this inbox, which wants messages.
async fn take(world: &World, inbox: &Inbox) -> HoldId {
    let hold = some_hold();
    let taken = world.queue(hold, TTL, entry_of(inbox.id)).await;
    assert!(matches!(taken, AcquireReply::Held { .. }), "{taken:?}");
    hold
}

async fn come(world: &World) -> (HoldId, QueueEntry) {
    let (hold, entry) = some_waiter();
    world.wait(hold, TTL, entry).await;
    (hold, entry)
}

async fn the_holder_gets_a_message_about_the_first_waiter(world: World) {
    let mut inbox = world.inbox().await;
    let hold = take(&world, &inbox).await;
    assert_eq!(told(&world, &mut inbox).await, 0);
    let (first, entry) = come(&world).await;
    assert_eq!(told(&world, &mut inbox).await, 1);
    // There is no message for the processes behind it, nor when it repeats its request.
    come(&world).await;
    world.wait(first, TTL, entry).await;
    assert_eq!(told(&world, &mut inbox).await, 0);
    // The message does not affect the hold.
    assert!(world.seen().await.token.is_some());
    let left = world.leave(hold, inbox.id).await;
    assert_eq!(left, crate::store::Presence::Present);
}

async fn the_holder_gets_a_message_about_a_waiting_reader(world: World) {
    let mut inbox = world.inbox().await;
    take(&world, &inbox).await;
    let (reader, entry) = some_waiter();
    let request = super::readers::share_request(&[reader], TTL, Some(entry));
    world.share_as(request).await;
    assert_eq!(told(&world, &mut inbox).await, 1);
}

async fn a_waiter_of_the_same_process_sends_no_message(world: World) {
    let mut inbox = world.inbox().await;
    take(&world, &inbox).await;
    world.wait(some_hold(), TTL, entry_of(inbox.id)).await;
    assert_eq!(told(&world, &mut inbox).await, 0);
    // The entry ahead of this process does not belong to another process.
    come(&world).await;
    assert_eq!(told(&world, &mut inbox).await, 1);
}

async fn a_later_holder_gets_a_message_in_its_turn(world: World) {
    let mut inbox = world.inbox().await;
    let holder = some_hold();
    world.take(holder, TTL).await;
    world.wait(some_hold(), TTL, entry_of(inbox.id)).await;
    world.release(holder).await;
    assert_eq!(world.received(&mut inbox).await.len(), 1);
    come(&world).await;
    assert_eq!(told(&world, &mut inbox).await, 1);
}

async fn an_answer_says_whether_another_process_may_wait(world: World) {
    let is_contended = |reply: Option<AcquireReply>| match reply {
        Some(AcquireReply::Held { is_contended, .. }) => is_contended,
        other => panic!("wanted the lock, got {other:?}"),
    };
    let first = some_hold();
    assert!(!is_contended(Some(world.acquire(first, TTL).await)));
    come(&world).await;
    assert!(is_contended(Some(world.acquire(first, TTL).await)));
}
