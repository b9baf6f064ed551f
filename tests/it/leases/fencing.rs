//! P11: every outermost acquisition gets a token greater than all earlier tokens of its key, whichever way the lock
//! comes. The contract of the stores tests the ways of a lock in the store. This file tests those of a caller.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::Direction::ToClient;
use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    Action, DEADLINE, Proxy, RedisServer, Turns, connect, on_both_stores, patient_at, processes,
    until_queued,
};
use redis::AsyncCommands;
use reentry::{FencingToken, Locks, held};
use tokio::task::JoinSet;

on_both_stores!(
    tokens_increase_in_the_order_of_entry,
    a_reentry_keeps_its_token
);

async fn token(locks: &Locks) -> FencingToken {
    let body = async { held(KEY).unwrap().fencing_token() };
    locks.with_lock(KEY, body).await.unwrap()
}

/// The later holder has the greater token, which is the rule of a resource.
async fn tokens_increase_in_the_order_of_entry(locks: Locks) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        let (locks, seen) = (locks.clone(), Arc::clone(&seen));
        tasks.spawn(async move {
            let note = async {
                let token = held(KEY).unwrap().fencing_token();
                seen.lock().unwrap().push(token);
            };
            locks.with_lock(KEY, note).await.unwrap();
        });
    }
    tasks.join_all().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 30);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

async fn a_reentry_keeps_its_token(locks: Locks) {
    let body = async {
        let outer = held(KEY).unwrap().fencing_token();
        assert_eq!(token(&locks).await, outer);
        let guard = locks.lock(KEY).await.unwrap();
        assert_eq!(guard.held().fencing_token(), outer);
        guard.release().await.unwrap();
        let info = locks.inspect(KEY).await.unwrap().unwrap();
        assert_eq!(info.token, Some(outer));
        outer
    };
    let first = locks.with_lock(KEY, body).await.unwrap();
    assert!(token(&locks).await > first);
}

/// The lock has a token that is ahead of the clock, as after a clock that was set back while it was held.
#[tokio::test]
async fn a_lock_that_moves_has_the_token_after_the_stored_one_where_the_clock_is_behind() {
    let server = RedisServer::start().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mut guard = one.lock(KEY).await.unwrap();
    let ahead = u64::from(guard.held().fencing_token()) + 3_600_000_000;
    let stored = format!("{} {}", ahead / 1_000_000, ahead % 1_000_000);
    let mut connection = server.connection().await;
    let () = connection.hset(KEY, "mode", stored).await.unwrap();
    for (next, turn) in [&other, &one, &other].into_iter().zip(1..) {
        let waiting = tokio::spawn(next.lock(KEY).acquire());
        until_queued(&server, 1).await;
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
        assert_eq!(u64::from(guard.held().fencing_token()), ahead + turn);
    }
    guard.release().await.unwrap();
    // The server has no trace of it any more, so the token comes from the clock.
    assert!(u64::from(token(&one).await) < ahead);
}

/// There are waiters with messages, and waiters that know that they get none, or do not know it. Others share a hold, and
/// their tokens are counted in memory.
#[tokio::test]
async fn tokens_increase_among_processes_of_every_kind() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    // Only a message of a subscription contains this.
    proxy.on_every(ToClient, b"$7\r\nmessage\r\n", Action::Lose);
    let heartbeat = Duration::from_millis(300);
    let at = |url| patient_at(url).ttl(TTL).__heartbeat(heartbeat).turns(2);
    let builder = at(server.url());
    let pool = deadpool_redis::Config::from_url(server.url())
        .create_pool(Some(deadpool_redis::Runtime::Tokio1))
        .unwrap();
    let without_messages = Locks::builder_with_pool(pool).response_timeout(DEADLINE);
    let kinds = [
        builder.clone(),
        at(proxy.url()),
        builder.clone().turns(1_000),
        without_messages.ttl(TTL).wait(DEADLINE),
    ];
    let [holder] = processes(&builder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for kind in &kinds {
        let locks = kind.clone().build().await.unwrap();
        for number in 0..8 {
            turns.come(&locks, &number.to_string()).await;
        }
    }
    let before = guard.held().fencing_token();
    guard.release().await.unwrap();
    let turns = turns.all().await;
    assert_eq!(turns.len(), 8 * kinds.len());
    assert!(turns[0].token > before);
    assert!(
        turns.is_sorted_by(|one, next| one.token < next.token),
        "{turns:?}"
    );
}
