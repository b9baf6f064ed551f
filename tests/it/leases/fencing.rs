//! P11: every outermost acquisition gets a token greater than all earlier tokens of its key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, connect, eventually, on_both_stores};
use redis::AsyncCommands;
use reentry::{FencingToken, Locks, held};
use tokio::task::JoinSet;

on_both_stores!(
    tokens_increase_with_every_acquisition,
    tokens_increase_in_the_order_of_entry,
    a_reentry_keeps_its_token,
    tokens_increase_after_an_expiry,
    tokens_increase_after_a_forced_release,
    nested_holds_of_one_call_graph_have_tokens_of_their_own,
);

async fn token(locks: &Locks) -> FencingToken {
    let body = async { held("key").unwrap().fencing_token() };
    locks.with_lock("key", body).await.unwrap()
}

async fn tokens_increase_with_every_acquisition(locks: Locks) {
    let mut last = FencingToken(0);
    for _ in 0..100 {
        let next = token(&locks).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

/// The later holder has the greater token: that is what a resource goes by.
async fn tokens_increase_in_the_order_of_entry(locks: Locks) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        let (locks, seen) = (locks.clone(), Arc::clone(&seen));
        tasks.spawn(async move {
            let body = async {
                seen.lock()
                    .unwrap()
                    .push(held("key").unwrap().fencing_token())
            };
            locks.with_lock("key", body).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 30);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

async fn a_reentry_keeps_its_token(locks: Locks) {
    let body = async {
        let outer = held("key").unwrap().fencing_token();
        assert_eq!(token(&locks).await, outer);
        assert_eq!(token(&locks).await, outer);
        let guard = locks.lock("key").await.unwrap();
        assert_eq!(guard.held().fencing_token(), outer);
        guard.release().await.unwrap();
        let info = locks.inspect("key").await.unwrap().unwrap();
        assert_eq!(info.token, Some(outer));
        outer
    };
    let first = locks.with_lock("key", body).await.unwrap();
    assert!(token(&locks).await > first);
}

async fn tokens_increase_after_an_expiry(locks: Locks) {
    let ttl = Duration::from_millis(100);
    let guard = locks.lock("key").ttl(ttl).max_hold(ttl).await.unwrap();
    let before = guard.held().fencing_token();
    let is_free = async || locks.inspect("key").await.unwrap().is_none();
    eventually(DEADLINE, "the end of the lease", is_free).await;
    assert!(token(&locks).await > before);
}

async fn tokens_increase_after_a_forced_release(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    assert!(locks.force_release("key").await.unwrap());
    assert!(token(&locks).await > guard.held().fencing_token());
}

async fn nested_holds_of_one_call_graph_have_tokens_of_their_own(locks: Locks) {
    let body = async {
        let inner = async || {
            let body = async { held("inner").unwrap().fencing_token() };
            locks.with_lock("inner", body).await.unwrap()
        };
        assert!(inner().await < inner().await);
    };
    locks.with_lock("outer", body).await.unwrap();
}

/// The memory forgets a key ten minutes after its last use, and the clock has moved on by then.
#[tokio::test(start_paused = true)]
async fn tokens_increase_after_the_store_has_forgotten_the_key() {
    let locks = Locks::in_memory();
    let mut last = FencingToken(0);
    for _ in 0..1_000 {
        last = token(&locks).await;
    }
    for hours in [1, 24, 24 * 365] {
        tokio::time::advance(Duration::from_secs(hours * 60 * 60)).await;
        let next = token(&locks).await;
        assert!(next > last);
        last = next;
    }
}

#[tokio::test]
async fn tokens_increase_after_a_flush() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let mut last = token(&locks).await;
    for flush in ["FLUSHALL", "FLUSHDB", "SCRIPT FLUSH"] {
        server.ask(flush).await;
        let next = token(&locks).await;
        assert!(next > last, "{flush}");
        last = next;
    }
}

#[tokio::test]
async fn tokens_increase_after_a_restart_that_lost_the_data() {
    let server = RedisServer::start().await;
    let before = {
        let locks = connect(&server).await;
        token(&locks).await
    };
    server.restart_empty().await;
    let locks = connect(&server).await;
    let after = token(&locks).await;
    assert!(after > before);
    server.restart_with_data().await;
    let locks = connect(&server).await;
    assert!(token(&locks).await > after);
}

/// A token in the lock that is ahead of the clock, as after a clock that was set back while it was held.
#[tokio::test]
async fn a_lock_that_moves_has_the_token_after_the_stored_one_where_the_clock_is_behind() {
    let server = RedisServer::start().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("key").await.unwrap();
    let ahead = guard.held().fencing_token().0 + 3_600_000_000;
    let stored = format!("{} {}", ahead / 1_000_000, ahead % 1_000_000);
    let mut connection = server.connection().await;
    let () = connection.hset("key", "token", stored).await.unwrap();
    let mut tokens = Vec::new();
    let mut guard = Some(guard);
    for next in [&one, &other, &one] {
        let locks = next.clone();
        let waiting = tokio::spawn(async move { locks.lock("key").await.unwrap() });
        let waits = async || {
            let info = one.inspect("key").await.unwrap().unwrap();
            let here = next.inspect("key").await.unwrap().unwrap().waiters;
            here + usize::try_from(info.waiting_processes).unwrap() > 0
        };
        eventually(DEADLINE, "it waits", waits).await;
        guard.take().unwrap().release().await.unwrap();
        let next = waiting.await.unwrap();
        tokens.push(next.held().fencing_token().0);
        guard = Some(next);
    }
    assert_eq!(tokens, [ahead + 1, ahead + 2, ahead + 3]);
    guard.unwrap().release().await.unwrap();
    // Nothing knows of it any more, and the clock tells.
    assert!(token(&one).await.0 < ahead);
}
