//! A lock that is taken, entered once more, listed and released: what a user may do who may not ask.

use std::{process, time::Duration};

use reentry::{LockError, Locks};

use super::{
    asked::Asked,
    finding::{CHECK_OF_USER as CHECK, Finding},
};

/// How long the lock outlives this program, if that dies in between.
const TTL: Duration = Duration::from_secs(5);

/// Takes a lock, and lists it.
pub(crate) async fn lock(locks: &Locks, asked: &Asked) -> Vec<Finding> {
    let key = match asked.is_named() {
        true => asked.name().to_owned(),
        // Another trial may be under way.
        false => format!("{}:{}", asked.name(), process::id()),
    };
    let said = |error| format!("{:#}", anyhow::Error::new(error));
    let taken = match taken(locks, &key).await {
        Ok(()) => Finding::ok(
            CHECK,
            "it may not ask for its rights; it could take a lock, enter it twice, and release it",
        ),
        // Nothing else can be tried with this key.
        Err(error) if !asked.is_named() && locks.__refuses_key(&error) => {
            return vec![asked.uncovered()];
        }
        Err(error) if error.is_contended() => Finding::warn(
            CHECK,
            format!(
                "it may not ask for its rights, and `{key}` is locked: it could not try to take it"
            ),
            "say `--key NAME`, with the name of a lock that it needs and that is free",
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
