//! The message that the inbox of a process receives when a lock moves to it.

use std::time::Duration;

use super::inbox::Inbox;
use super::world::{GRANT, MINUTE, World, acquire_request, entry_of, some_hold, some_waiter};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::{AcquireReply, AcquireRequest, StoreTime};

on_every_store!(
    a_message_says_what_the_lock_shows,
    a_message_names_a_key_of_any_bytes,
    a_release_tells_the_next_process_alone,
    a_waiter_that_leaves_a_lock_it_was_given_tells_the_next,
    force_tells_the_next_process,
    a_free_lock_that_moves_tells_its_head,
    a_head_that_takes_the_lock_itself_is_not_told,
    leaving_the_queue_sends_no_message,
    a_process_is_told_of_each_key_in_the_order_of_the_moves,
    a_lock_moves_also_to_an_inbox_that_is_not_read,
);

const TTL: Duration = MINUTE.saturating_mul(9);

/// The holds of which an inbox was notified.
async fn told(world: &World, inbox: &mut Inbox) -> Vec<HoldId> {
    let told = world.received(inbox).await;
    told.into_iter().map(|message| message.holds[0]).collect()
}

/// The clock of the store, read from a lock that must be held.
async fn now(world: &World) -> StoreTime {
    match world.acquire(some_hold(), MINUTE).await {
        AcquireReply::Busy { now, .. } => now,
        other => panic!("wanted a busy lock, got {other:?}"),
    }
}

/// A lock that is held, and two processes that wait for it.
async fn two_waiters(world: &World, holder: HoldId) -> [(HoldId, Inbox); 2] {
    world.take(holder, TTL).await;
    let waiters = [
        (some_hold(), world.inbox().await),
        (some_hold(), world.inbox().await),
    ];
    for (hold, inbox) in &waiters {
        world.wait(*hold, TTL, entry_of(inbox.id)).await;
    }
    waiters
}

async fn a_message_says_what_the_lock_shows(mut world: World) {
    // A name may contain the separator of the words of a message.
    world.key = LockKey::new("app: ", "order 7 1 {x} é").expect("a valid key");
    let (holder, next) = (some_hold(), some_hold());
    let mut inbox = world.inbox().await;
    world.take(holder, TTL).await;
    let request = AcquireRequest {
        entry: Some(entry_of(inbox.id)),
        ..acquire_request(next, TTL)
    };
    world.ask(request).await;
    let before = now(&world).await;
    world.pass(MINUTE).await;
    world.release(holder).await;
    let after = now(&world).await;

    let told = world.received(&mut inbox).await;
    let [message] = told.as_slice() else {
        panic!("told {told:?}");
    };
    assert_eq!(message.key, world.key.as_str());
    assert_eq!((message.holds[0], message.lease), (next, GRANT));
    assert!(before <= message.at && message.at <= after, "{message:?}");
    assert_eq!(world.seen().await.token, Some(message.token));
    // The message says what a request would have found out.
    assert_eq!(world.take(next, TTL).await, message.token);
}

/// Every byte that occurs in UTF-8, whichever script moves the lock. Lua formats a short text up to its first NUL, and
/// one of 100 bytes or more completely.
async fn a_message_names_a_key_of_any_bytes(mut world: World) {
    let all = (0..0x800).chain((0x800..0x11_0000).step_by(0x800));
    let all: Vec<char> = all.filter_map(char::from_u32).collect();
    for name in all.chunks(64).chain([all.as_slice()]) {
        let name: String = name.iter().collect();
        world.key = LockKey::new("a", &name).expect("a valid key");
        let [first, second, third, reader] = [(); 4].map(|()| some_hold());
        let mut inbox = world.inbox().await;
        world.take(first, TTL).await;
        world.wait(second, TTL, entry_of(inbox.id)).await;
        world.release(first).await;
        world.wait(third, TTL, entry_of(inbox.id)).await;
        world.force_release(world.seen().await).await;
        world.read_later(&[reader], entry_of(inbox.id)).await;
        world.bury(third).await;
        let told = world.received(&mut inbox).await;
        let told: Vec<_> = told.iter().map(|it| (it.holds[0], &*it.key)).collect();
        let key = world.key.as_str();
        assert_eq!(told, [(second, key), (third, key), (reader, key)]);
    }
}

async fn a_release_tells_the_next_process_alone(world: World) {
    let holder = some_hold();
    let [(first, mut one), (second, mut other)] = two_waiters(&world, holder).await;
    assert_eq!(told(&world, &mut one).await, []);
    world.release(holder).await;
    assert_eq!(told(&world, &mut one).await, [first]);
    assert_eq!(told(&world, &mut other).await, []);
    // There is one message, whatever is repeated or done with the lock.
    world.release(holder).await;
    world.take(first, TTL).await;
    world.renew(first, TTL).await;
    assert_eq!(told(&world, &mut one).await, []);
    world.release(first).await;
    assert_eq!(told(&world, &mut one).await, []);
    assert_eq!(told(&world, &mut other).await, [second]);
}

async fn a_waiter_that_leaves_a_lock_it_was_given_tells_the_next(world: World) {
    let holder = some_hold();
    let [(first, mut one), (second, mut other)] = two_waiters(&world, holder).await;
    world.release(holder).await;
    world.leave(first, one.id).await;
    assert_eq!(told(&world, &mut one).await, [first]);
    assert_eq!(told(&world, &mut other).await, [second]);
}

async fn force_tells_the_next_process(world: World) {
    let holder = some_hold();
    let [(first, mut one), (_, mut other)] = two_waiters(&world, holder).await;
    let seen = world.seen().await;
    for _ in 0..2 {
        world.force_release(seen.clone()).await;
    }
    assert_eq!(told(&world, &mut one).await, [first]);
    assert_eq!(told(&world, &mut other).await, []);
}

async fn a_free_lock_that_moves_tells_its_head(world: World) {
    let [(first, mut one), (second, mut other)] = two_waiters(&world, some_hold()).await;
    world.pass(TTL + MINUTE).await;
    world.wait(second, TTL, entry_of(other.id)).await;
    assert_eq!(told(&world, &mut one).await, [first]);
    assert_eq!(told(&world, &mut other).await, []);
    world.pass(GRANT + MINUTE).await;
    world.acquire(some_hold(), TTL).await;
    assert_eq!(told(&world, &mut one).await, []);
    assert_eq!(told(&world, &mut other).await, [second]);
}

async fn a_head_that_takes_the_lock_itself_is_not_told(world: World) {
    let [(first, mut one), (_, mut other)] = two_waiters(&world, some_hold()).await;
    world.pass(TTL + MINUTE).await;
    world.queue(first, TTL, entry_of(one.id)).await;
    assert!(world.is_held(first, TTL).await);
    assert_eq!(told(&world, &mut one).await, []);
    assert_eq!(told(&world, &mut other).await, []);
}

async fn leaving_the_queue_sends_no_message(world: World) {
    let [(first, mut one), (second, mut other)] = two_waiters(&world, some_hold()).await;
    world.leave(first, one.id).await;
    world.leave(second, other.id).await;
    assert_eq!(told(&world, &mut one).await, []);
    assert_eq!(told(&world, &mut other).await, []);
}

async fn a_process_is_told_of_each_key_in_the_order_of_the_moves(mut world: World) {
    let mut inbox = world.inbox().await;
    let mut locks = Vec::new();
    for name in ["a", "b", "c"] {
        world.key = LockKey::new("app:", name).expect("a valid key");
        let (holder, next) = (some_hold(), some_hold());
        world.take(holder, TTL).await;
        world.wait(next, TTL, entry_of(inbox.id)).await;
        locks.push((world.key.clone(), holder, next));
    }
    locks.reverse();
    for (key, holder, _) in &locks {
        world.key = key.clone();
        world.release(*holder).await;
    }
    let told = world.received(&mut inbox).await.into_iter();
    let told: Vec<_> = told
        .map(|message| (message.key, message.holds[0]))
        .collect();
    let moves = locks.into_iter();
    let moves: Vec<_> = moves
        .map(|(key, _, next)| (key.as_str().to_owned(), next))
        .collect();
    assert_eq!(told, moves);
}

async fn a_lock_moves_also_to_an_inbox_that_is_not_read(world: World) {
    let (holder, (next, nowhere)) = (some_hold(), some_waiter());
    let mut inbox = world.inbox().await;
    world.take(holder, TTL).await;
    world.wait(next, TTL, nowhere).await;
    world.release(holder).await;
    assert!(world.is_held(next, GRANT).await);
    assert_eq!(told(&world, &mut inbox).await, []);
}
