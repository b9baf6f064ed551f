//! P11: every outermost acquisition gets a token greater than all earlier tokens of its key, whichever way the lock
//! comes. The contract of the stores tests the ways of a lock in the store. This file tests those of a caller.

use std::sync::{Arc, Mutex};

use crate::support::on_both_stores;
use crate::support::rig::KEY;
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
        let info = locks.admin().inspect(KEY).await.unwrap().unwrap();
        assert_eq!(info.token, Some(outer));
        outer
    };
    let first = locks.with_lock(KEY, body).await.unwrap();
    assert!(token(&locks).await > first);
}
