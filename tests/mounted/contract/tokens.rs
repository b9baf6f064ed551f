//! Fencing tokens: greater with every move of the lock (P11).

use std::time::Duration;

use super::world::{MINUTE, World, entry_of, field_of, some_hold, some_waiter};
use crate::base::id::{FencingToken, HoldId};
use crate::store::AcquireReply;

on_every_store!(
    tokens_grow_with_every_kind_of_move,
    a_token_is_told_with_the_time_and_is_not_ahead_of_it,
);

const TTL: Duration = MINUTE.saturating_mul(9);

async fn shown(world: &World, hold: HoldId) -> FencingToken {
    let seen = world.seen().await;
    assert_eq!(seen.fields, [field_of(hold)]);
    seen.token.expect("a token")
}

async fn tokens_grow_with_every_kind_of_move(world: World) {
    let (taker, (next, own), head) = (some_hold(), some_waiter(), some_waiter());
    let mut tokens = vec![world.take(taker, TTL).await];
    let (passed, forced, left) = (some_waiter(), some_waiter(), some_waiter());
    let late = some_waiter();
    world.wait(head.0, TTL, head.1).await;

    world.release(taker).await;
    tokens.push(shown(&world, head.0).await);
    world.wait(passed.0, TTL, passed.1).await;
    world.wait(forced.0, TTL, forced.1).await;
    world.release(head.0).await;
    tokens.push(shown(&world, passed.0).await);
    world.force_release(world.seen().await).await;
    tokens.push(shown(&world, forced.0).await);
    world.wait(left.0, TTL, left.1).await;
    world.wait(late.0, TTL, late.1).await;
    world.release(forced.0).await;
    tokens.push(shown(&world, left.0).await);
    world.leave(left.0, left.1.inbox).await;
    tokens.push(shown(&world, late.0).await);
    world.wait(head.0, TTL, head.1).await;
    world.pass(TTL + MINUTE).await;
    world.acquire(some_hold(), TTL).await;
    tokens.push(shown(&world, head.0).await);
    world.wait(next, TTL, own).await;
    world.pass(TTL + MINUTE).await;
    world.queue(next, TTL, own).await;
    tokens.push(shown(&world, next).await);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// So call graphs that continue a hold in memory know which numbers the clock has passed.
async fn a_token_is_told_with_the_time_and_is_not_ahead_of_it(world: World) {
    let (holder, next) = (some_hold(), some_hold());
    let mut inbox = world.inbox().await;
    let before = world.acquire(holder, TTL).await;
    let AcquireReply::Held { token, at, .. } = before else {
        panic!("wanted the lock, got {before:?}");
    };
    assert_eq!(token.0, at.micros);
    world.pass(Duration::from_millis(1)).await;
    let again = world.acquire(holder, TTL).await;
    let AcquireReply::Held { token, at: now, .. } = again else {
        panic!("wanted the lock, got {again:?}");
    };
    assert!(token.0 == at.micros && at < now, "{again:?}");
    world.wait(next, TTL, entry_of(inbox.id)).await;
    world.pass(Duration::from_millis(1)).await;
    world.release(holder).await;
    let told = world.received(&mut inbox).await;
    assert_eq!(told[0].token.0, told[0].at.micros);
}
