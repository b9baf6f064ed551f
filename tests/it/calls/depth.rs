//! P3: while the lock is held, the holder's field in the store equals the number of its entries.

use std::collections::HashMap;

use crate::support::{DEADLINE, RedisServer, connect, depths, eventually, on_both_stores};
use futures_util::FutureExt;
use futures_util::future::join_all;
use redis::AsyncCommands;
use reentry::{Locks, held};
use tokio::sync::Barrier;

on_both_stores!(
    the_store_shows_each_entry_and_each_exit,
    branches_below_one_holder_add_up,
    an_inner_body_that_was_dropped_no_longer_counts,
    entries_of_many_tasks_below_one_guard_settle_at_one,
);

async fn the_store_shows_each_entry_and_each_exit(locks: Locks) {
    let at = async |depth: u64| {
        assert_eq!(depths(&locks, "key").await, [depth]);
        assert_eq!(u64::from(held("key").unwrap().depth()), depth);
    };
    let third = async { at(3).await };
    let second = async {
        at(2).await;
        locks.with_lock("key", third).await.unwrap();
        at(2).await;
    };
    let first = async {
        at(1).await;
        locks.with_lock("key", second).await.unwrap();
        at(1).await;
        locks.with_lock("key", at(2)).await.unwrap();
        at(1).await;
    };
    locks.with_lock("key", first).await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn branches_below_one_holder_add_up(locks: Locks) {
    let (all_in, seen) = (Barrier::new(5), Barrier::new(5));
    let branch = async || {
        let body = async {
            all_in.wait().await;
            assert_eq!(depths(&locks, "key").await, [6]);
            seen.wait().await;
        };
        locks.with_lock("key", body).await.unwrap();
    };
    let body = async {
        join_all((0..5).map(|_| branch())).await;
        assert_eq!(depths(&locks, "key").await, [1]);
    };
    locks.with_lock("key", body).await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn an_inner_body_that_was_dropped_no_longer_counts(locks: Locks) {
    let body = async {
        let inside = Barrier::new(2);
        let inner = async {
            inside.wait().await;
            std::future::pending::<()>().await;
        };
        let nested = async { locks.with_lock("key", inner).await };
        tokio::select! {
            _ = locks.with_lock("key", nested) => unreachable!("its body never ends"),
            () = async {
                inside.wait().await;
                assert_eq!(depths(&locks, "key").await, [3]);
            } => {}
        }
        assert_eq!(held("key").unwrap().depth(), 1);
        eventually(DEADLINE, "depth 1", async || {
            depths(&locks, "key").await == [1]
        })
        .await;
        // The numbers continue from there.
        locks
            .with_lock("key", async {
                assert_eq!(depths(&locks, "key").await, [2])
            })
            .await
    };
    locks.with_lock("key", body).await.unwrap().unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

/// Entries that were begun below the guard continue in separate tasks, or are dropped wherever they are. Whatever the
/// order, the sum is correct.
async fn entries_of_many_tasks_below_one_guard_settle_at_one(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let begin = guard.scope(async {
        let mut entries = Vec::new();
        for _ in 0..20 {
            let mut entry = Box::pin(locks.with_lock("key", tokio::task::yield_now()));
            let done = (&mut entry).now_or_never().is_some();
            assert!(!done, "the body waits at least once");
            entries.push(entry);
        }
        entries
    });
    let mut tasks = tokio::task::JoinSet::new();
    for (n, entry) in begin.await.unwrap().into_iter().enumerate() {
        if n % 3 > 0 {
            tasks.spawn(entry);
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    eventually(DEADLINE, "depth 1", async || {
        depths(&locks, "key").await == [1]
    })
    .await;
    assert_eq!(guard.held().depth(), 1);
    guard.release().await.unwrap();
    assert!(locks.inspect("key").await.unwrap().is_none());
}

/// This is what any other program sees: one field per hold, with the name that `Held` reports, and the token.
#[tokio::test]
async fn the_redis_hash_holds_the_depth_under_the_hold_id() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let connection = server.connection().await;
    let hash =
        async || -> HashMap<String, String> { connection.clone().hgetall("key").await.unwrap() };
    let shows = async |depth: u64| {
        let held = held("key").unwrap();
        let token = u64::from(held.fencing_token());
        let shown = HashMap::from([
            (held.hold_id().to_string(), depth.to_string()),
            (
                "mode".to_owned(),
                format!("{} {}", token / 1_000_000, token % 1_000_000),
            ),
        ]);
        assert_eq!(hash().await, shown);
    };
    let body = async {
        shows(1).await;
        locks
            .with_lock("key", async {
                shows(2).await;
                locks.with_lock("key", shows(3)).await.unwrap();
                shows(2).await;
            })
            .await
            .unwrap();
        shows(1).await;
    };
    locks.with_lock("key", body).await.unwrap();
    assert_eq!(server.ask("EXISTS key").await, "0");
}
