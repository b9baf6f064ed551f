//! `inspect` returns the state of a lock in the store, `force_release` takes the lock away, and a prefix is visible
//! only in the store.

use std::time::Duration;

use crate::support::{RedisServer, on_both_stores, patient};
use reentry::__admin::{HoldId, Ids as _};
use reentry::{Locks, held};

on_both_stores!(a_held_lock_shows_its_holder, a_ping_leaves_nothing);

async fn a_ping_leaves_nothing(locks: Locks) {
    locks.ping().await.unwrap();
    let info = locks.admin().inspect("ping").await.unwrap();
    assert!(info.is_none());
}

async fn a_held_lock_shows_its_holder(locks: Locks) {
    let ttl = Duration::from_secs(20);
    let body = async {
        let info = locks.admin().inspect("key").await.unwrap().unwrap();
        let held = held("key").unwrap();
        let [holder] = info.holders.as_slice() else {
            panic!("{info:?}");
        };
        assert_eq!(holder.hold_id, held.hold_id().to_string());
        assert_eq!(holder.hold_id.parse::<HoldId>().unwrap(), held.hold_id());
        assert_eq!(holder.owner, Some(held.owner().to_string()));
        assert_eq!(holder.depth, 1);
        assert_eq!(info.token, Some(held.fencing_token()));
        assert_eq!(info.waiters, 0);
        let remaining = info.remaining.unwrap();
        assert!(remaining <= ttl && remaining > ttl / 2);
        // The lease that the holder relies on ends before that of the store.
        assert!(held.remaining() < remaining);
    };
    locks.lock("key").ttl(ttl).run(body).await.unwrap();
}

#[tokio::test]
async fn a_prefix_shows_in_redis_and_not_in_the_api() {
    let server = RedisServer::start().await;
    let build = async |prefix: &str| {
        let builder = patient(&server).prefix(prefix);
        builder.build().await.unwrap()
    };
    let locks = build("app:").await;
    let body = async {
        assert_eq!(server.ask("EXISTS app:key").await, "1");
        assert_eq!(server.ask("EXISTS key").await, "0");
        assert_eq!(held("key").unwrap().key(), "key");
        assert!(held("app:key").is_none());
        assert!(locks.admin().inspect("key").await.unwrap().is_some());
        // This is the same key in the store, whichever prefix and name it has.
        let error = build("").await.lock("app:key").no_wait().await.unwrap_err();
        assert_eq!(error.key(), Some("app:key"));
        let busy = build("app:").await.lock("key").no_wait().await.unwrap_err();
        assert_eq!(busy.key(), Some("key"));
        assert_eq!(busy.to_string(), "`key` is held by another caller");
        // Another prefix is another lock.
        let other = build("other:").await;
        other.lock("key").no_wait().run(async {}).await.unwrap();
        assert!(locks.admin().force_release("key").await.unwrap());
        assert!(
            !locks.admin().force_release("key").await.unwrap(),
            "it is free"
        );
        std::future::pending::<()>().await;
    };
    let request = locks.lock("key").ttl(Duration::from_secs(3));
    let lost = request.run(body).await.unwrap_err();
    assert_eq!(lost.key(), Some("key"));
    assert!(!lost.to_string().contains("app:"), "{lost}");
}
