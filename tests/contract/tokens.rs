//! Fencing tokens: greater with every move of the lock, and in blocks that overlap nothing (P11).

use std::time::Duration;

use super::world::{
    MINUTE, World, acquire_request, entry_of, field_of, some_hold, some_waiter, successor,
};
use crate::{
    base::id::{FencingToken, HoldId},
    store::{AcquireReply, AcquireRequest, Order, StoreTime, Successor, Tokens},
};

on_every_store!(
    tokens_grow_with_every_kind_of_move,
    the_answer_the_message_and_the_lock_agree_on_the_token,
    a_block_holds_no_more_tokens_than_were_asked_for,
    where_no_token_is_known_there_is_no_block,
    a_block_never_runs_ahead_of_the_clock,
    blocks_of_successive_holds_do_not_overlap,
    asking_again_gives_the_last_token_of_the_block,
);

const TTL: Duration = MINUTE.saturating_mul(9);
const MANY: u32 = 1_000_000;

fn last(tokens: Tokens) -> u64 {
    tokens.first.0 + u64::from(tokens.count) - 1
}

async fn shown(world: &World, hold: HoldId) -> FencingToken {
    let seen = world.seen().await;
    assert_eq!(seen.field, field_of(hold));
    seen.token.expect("a token")
}

/// What the clock of the store says while the lock is busy.
async fn now(world: &World) -> StoreTime {
    match world.acquire(some_hold(), MINUTE).await {
        AcquireReply::Busy { now, .. } => now,
        other => panic!("wanted a busy lock, got {other:?}"),
    }
}

async fn tokens_grow_with_every_kind_of_move(world: World) {
    let (taker, (next, own), head) = (some_hold(), some_waiter(), some_waiter());
    let mut tokens = vec![world.take(taker, TTL).await];
    let (passed, forced, left) = (some_waiter(), some_waiter(), some_waiter());
    let late = some_waiter();
    world.wait(head.0, TTL, head.1).await;

    world.hand_over(taker, successor(next, TTL, own)).await;
    tokens.push(shown(&world, next).await);
    world.release(next).await;
    tokens.push(shown(&world, head.0).await);
    world.wait(passed.0, TTL, passed.1).await;
    let behind = Successor {
        order: Order::QueueFirst,
        ..successor(forced.0, TTL, forced.1)
    };
    world.hand_over(head.0, behind).await;
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

async fn the_answer_the_message_and_the_lock_agree_on_the_token(world: World) {
    let (holder, next) = (some_hold(), some_hold());
    let mut inbox = world.inbox().await;
    world.take(holder, TTL).await;
    world.wait(next, TTL, entry_of(inbox.id)).await;
    world.release(holder).await;
    let told = world.received(&mut inbox).await;
    let first = told[0].tokens.first;
    assert_eq!(told[0].tokens.count, 1);
    assert_eq!(world.take(next, TTL).await, first);
    assert_eq!(shown(&world, next).await, first);

    let last = some_hold();
    let named = successor(last, TTL, entry_of(inbox.id));
    let Some(AcquireReply::Held { tokens, .. }) = world.hand_over(next, named).await.successor
    else {
        panic!("a successor without the lock");
    };
    assert_eq!(tokens.count, 1);
    assert_eq!(world.take(last, TTL).await, tokens.first);
    assert_eq!(shown(&world, last).await, tokens.first);
}

async fn a_block_holds_no_more_tokens_than_were_asked_for(world: World) {
    for count in [1, 2, 1000] {
        let hold = some_hold();
        let tokens = world.block(hold, count).await;
        assert!((1..=count).contains(&tokens.count), "{tokens:?}");
        assert_eq!(shown(&world, hold).await.0, last(tokens));
        world.release(hold).await;
    }
}

/// It might reach back to tokens that were given before the store lost them.
async fn where_no_token_is_known_there_is_no_block(world: World) {
    assert_eq!(world.block(some_hold(), MANY).await.count, 1);
    world.pass(24 * 60 * MINUTE).await;
    assert_eq!(world.block(some_hold(), MANY).await.count, 1);
}

async fn a_block_never_runs_ahead_of_the_clock(world: World) {
    let (holder, next, last_hold) = (some_hold(), some_hold(), some_hold());
    let mut inbox = world.inbox().await;
    assert!(last(world.block(holder, MANY).await) <= now(&world).await.micros);
    let request = AcquireRequest {
        tokens: MANY,
        entry: Some(entry_of(inbox.id)),
        ..acquire_request(next, TTL)
    };
    world.ask(request).await;
    world.pass(Duration::from_millis(1)).await;
    world.release(holder).await;
    let told = world.received(&mut inbox).await;
    assert!(last(told[0].tokens) <= told[0].at.micros, "{told:?}");
    world.pass(Duration::from_millis(1)).await;
    let named = Successor {
        tokens: MANY,
        ..successor(last_hold, TTL, entry_of(inbox.id))
    };
    let released = world.hand_over(next, named).await;
    let Some(AcquireReply::Held { tokens, .. }) = released.successor else {
        panic!("a successor without the lock");
    };
    assert!(last(tokens) <= now(&world).await.micros, "{tokens:?}");
}

async fn blocks_of_successive_holds_do_not_overlap(world: World) {
    let mut before = 0;
    let mut inbox = world.inbox().await;
    for _ in 0..5 {
        let (holder, successor_hold, next) = (some_hold(), some_hold(), some_hold());
        let mut blocks = vec![world.block(holder, MANY).await];
        let named = Successor {
            tokens: MANY,
            ..successor(successor_hold, TTL, entry_of(inbox.id))
        };
        let released = world.hand_over(holder, named).await;
        if let Some(AcquireReply::Held { tokens, .. }) = released.successor {
            blocks.push(tokens);
        }
        world.pass(Duration::from_millis(1)).await;
        let request = AcquireRequest {
            tokens: MANY,
            entry: Some(entry_of(inbox.id)),
            ..acquire_request(next, TTL)
        };
        world.ask(request).await;
        world.release(successor_hold).await;
        blocks.extend(
            world
                .received(&mut inbox)
                .await
                .iter()
                .map(|message| message.tokens),
        );
        assert_eq!(blocks.len(), 3);
        for block in blocks {
            assert!(before < block.first.0, "{before} {block:?}");
            before = last(block);
        }
        world.release(next).await;
    }
}

async fn asking_again_gives_the_last_token_of_the_block(world: World) {
    let hold = some_hold();
    let tokens = world.block(hold, 1000).await;
    // Which of the others were used, the store does not know.
    for count in [1, 1000] {
        let again = world.block(hold, count).await;
        assert_eq!((again.first.0, again.count), (last(tokens), 1));
    }
}
