//! P1, P2: which callers share a lock, which are kept out, and what a nested call gets.

use std::sync::Arc;

use crate::support::{RedisServer, connect, depths, in_memory, until_depths};
use reentry::__admin::Ids as _;
use reentry::{Locks, held};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

in_memory!(
    a_nested_read_re_enters_a_read,
    a_read_under_a_write_stays_exclusive,
    a_write_under_a_read_is_refused_at_once,
);

async fn a_nested_read_re_enters_a_read(locks: Locks) {
    let nested = async {
        let outer = held("key").unwrap();
        let inner = locks
            .lock("key")
            .read()
            .run(async { held("key").unwrap().hold_id() });
        assert_eq!(inner.await.unwrap(), outer.hold_id());
        locks
            .lock("key")
            .read()
            .run(async {
                until_depths(&locks, "key", &[2]).await;
            })
            .await
            .unwrap();
        until_depths(&locks, "key", &[1]).await;
    };
    locks.lock("key").read().run(nested).await.unwrap();
}

async fn a_read_under_a_write_stays_exclusive(locks: Locks) {
    let nested = async {
        let mode = locks
            .lock("key")
            .read()
            .run(async { held("key").unwrap().is_shared() });
        assert!(!mode.await.unwrap());
        let outside = tokio::spawn(locks.lock("key").read().try_acquire());
        assert!(outside.await.unwrap().unwrap().is_none());
    };
    locks.with_lock("key", nested).await.unwrap();
}

async fn a_write_under_a_read_is_refused_at_once(locks: Locks) {
    let nested = async {
        let write = locks.with_lock("key", async {}).await.unwrap_err();
        assert!(write.is_misuse() && write.key() == Some("key"), "{write:?}");
        locks.with_lock("other", async {}).await.unwrap();
        assert_eq!(depths(&locks, "key").await, [1]);
    };
    locks.lock("key").read().run(nested).await.unwrap();
}

/// A single reader is two EVALSHA. Readers that join while a request is in flight enter with one request: 1 + 1 + 16 +
/// 14, and one end for each.
#[tokio::test]
async fn readers_that_arrive_together_share_requests() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    locks.lock("key").read().run(async {}).await.unwrap();
    let before = server.commandstats().await;
    for _ in 0..10 {
        locks.lock("key").read().run(async {}).await.unwrap();
    }
    assert_eq!(server.count_since(&before, "evalsha").await, 20);
    let before = server.commandstats().await;
    let inside = Arc::new(Barrier::new(32));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let inside = Arc::clone(&inside);
        let body = async move { inside.wait().await };
        tasks.spawn(locks.lock("key").read().run(body));
    }
    for done in tasks.join_all().await {
        done.unwrap();
    }
    let asked = server.count_since(&before, "evalsha").await;
    assert!(asked <= 32 + 4, "{asked}");
    assert_eq!(server.key_count().await, 0);
}
