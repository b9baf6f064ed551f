//! A lock that is taken, entered once more, listed and released: what a user may do who may not ask.

use std::{process, time::Duration};

use reentry::{LockError, Locks};

use super::finding::Finding;

/// How long the lock outlives this program, if that dies in between.
const TTL: Duration = Duration::from_secs(5);

/// Takes a lock of its own, and lists it.
pub(crate) async fn lock(locks: &Locks) -> Vec<Finding> {
    const CHECK: &str = "user";
    let key = format!("reentry-doctor:{}", process::id());
    let said = |error| format!("{:#}", anyhow::Error::new(error));
    let taken = match taken(locks, &key).await {
        Ok(()) => Finding::ok(
            CHECK,
            "it may not ask for its rights; it could take a lock, enter it twice, and release it",
        ),
        Err(error) => Finding::fail(
            CHECK,
            format!(
                "it may not ask for its rights, and could not take a lock: {}",
                said(error)
            ),
            "give it the rights that the README of the crate lists",
        ),
    };
    let listed = match listed(locks, &key).await {
        Ok(()) => Finding::ok(CHECK, "it could list locks"),
        Err(error) => Finding::warn(
            CHECK,
            format!(
                "`reentry ls`, `show` and `watch` are refused: {}",
                said(error)
            ),
            "+scan +hkeys +zcount +dbsize",
        ),
    };
    vec![taken, listed]
}

async fn taken(locks: &Locks, key: &str) -> Result<(), LockError> {
    let guard = locks.lock(key).ttl(TTL).no_wait().await?;
    let nested = guard.scope(locks.lock(key).ttl(TTL).no_wait().acquire());
    nested.await??.release().await?;
    guard.release().await
}

async fn listed(locks: &Locks, key: &str) -> Result<(), LockError> {
    locks.__glance(key).await?;
    locks.queue(key).next_page().await?;
    locks.list(key).next_page().await.map(drop)
}
