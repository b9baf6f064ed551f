//! P6 when another program takes the lock away or puts something else in its place, and the scripts when
//! the server forgets them.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, Rig, within};
use reentry::{LockError, LostReason};

/// Every way to take a lock away that is not a command of this crate.
const THEFTS: [&str; 3] = ["DEL order:42", "FLUSHALL", "PEXPIRE order:42 0"];

fn is_gone<T>(result: Result<T, LockError>) -> bool {
    let gone = LostReason::Gone;
    matches!(result, Err(LockError::Lost { reason, key, .. }) if reason == gone && key == KEY)
}

fn never() {
    panic!("the body of a lock that is not held");
}

#[tokio::test]
async fn a_lock_taken_away_is_lost_at_the_next_renewal_and_the_body_is_dropped() {
    for theft in THEFTS {
        let rig = Rig::with_ttl(Duration::from_secs(3)).await;
        let locked = rig.locks.with_lock(KEY, async {
            rig.server.ask(theft).await;
            pending::<()>().await;
        });
        assert!(is_gone(
            within(DEADLINE, "the loss is noticed", locked).await
        ));
    }
}

#[tokio::test]
async fn a_lock_taken_away_is_lost_at_the_next_entry() {
    let rig = Rig::start().await;
    for theft in THEFTS {
        let mut went_on = false;
        let outer = rig.locks.with_lock(KEY, async {
            rig.server.ask(theft).await;
            let _ = rig.locks.with_lock(KEY, async { never() }).await;
            went_on = true;
        });
        assert!(is_gone(
            within(DEADLINE, "the loss is noticed", outer).await
        ));
        assert!(!went_on);
    }
}

#[tokio::test]
async fn a_lock_taken_away_is_lost_at_the_next_exit_and_at_the_release() {
    let rig = Rig::start().await;
    for theft in THEFTS {
        let outer = rig.locks.with_lock(KEY, async {
            let inner = rig
                .locks
                .with_lock(KEY, async { rig.server.ask(theft).await });
            assert!(is_gone(inner.await));
        });
        assert!(is_gone(outer.await));
        let whole = rig
            .locks
            .with_lock(KEY, async { rig.server.ask(theft).await });
        assert!(is_gone(whole.await));
        let guard = rig.locks.lock(KEY).await.unwrap();
        rig.server.ask(theft).await;
        assert!(is_gone(guard.release().await));
    }
}

#[tokio::test]
async fn a_lock_taken_away_and_given_to_another_stays_with_the_other() {
    let rig = Rig::start().await;
    let whole = rig.locks.with_lock(KEY, async {
        assert!(rig.locks.force_release(KEY).await.unwrap());
        let other = rig.locks.clone();
        // A task of its own is a call graph of its own.
        let other = tokio::spawn(async move { other.lock(KEY).await.unwrap() });
        (other.await.unwrap(), rig.hash().await)
    });
    // The other's guard goes down with the output, so look at it before.
    assert!(is_gone(whole.await));
    rig.until_free().await;

    let first = rig.locks.lock(KEY).await.unwrap();
    assert!(rig.locks.force_release(KEY).await.unwrap());
    let other = rig.locks.lock(KEY).await.unwrap();
    let hash = rig.hash().await;
    assert!(hash.contains_key(&other.held().hold_id().to_string()));
    let nested = first.scope(async { rig.locks.with_lock(KEY, async {}).await });
    assert!(is_gone(nested.await.and_then(|inner| inner)));
    assert!(first.release().await.is_err());
    assert_eq!(rig.hash().await, hash, "no field of ours comes back");
    other.release().await.unwrap();
}

#[tokio::test]
async fn something_else_at_the_key_is_a_store_error_that_names_it_and_stays() {
    let rig = Rig::start().await;
    for (put, kind) in [
        ("SET order:42 precious", "string"),
        ("RPUSH order:42 precious", "list"),
        ("ZADD order:42 1 precious", "zset"),
    ] {
        rig.server.ask(put).await;
        let locked = rig.locks.with_lock(KEY, async { never() });
        // At once, not after the wait.
        let refused = within(DEADLINE / 2, "it is refused", locked).await;
        let error = refused.unwrap_err();
        assert!(error.to_string().contains(KEY), "{error}");
        let LockError::Store { key, source, .. } = error else {
            panic!("not a store error, but {error:?}");
        };
        assert_eq!(key.as_deref(), Some(KEY));
        let cause = source.source().expect("what the server said").to_string();
        assert!(cause.contains("WRONGTYPE"), "{cause}");
        assert!(rig.locks.inspect(KEY).await.is_err());
        assert!(rig.locks.force_release(KEY).await.is_err());
        assert!(rig.locks.lock(KEY).try_acquire().await.is_err());
        assert_eq!(rig.server.ask("TYPE order:42").await, kind);
        assert_eq!(rig.server.ask("PTTL order:42").await, "-1");
        assert_eq!(rig.server.ask("DBSIZE").await, "1", "and nothing beside it");
        rig.server.ask("DEL order:42").await;
        rig.locks.with_lock(KEY, async {}).await.unwrap();
        rig.server.ask("FLUSHALL").await;
    }
}

#[tokio::test]
async fn something_else_put_at_the_key_of_a_holder_is_not_overwritten() {
    let rig = Rig::with_ttl(Duration::from_secs(3)).await;
    let outer = rig.locks.with_lock(KEY, async {
        rig.server.ask("SET order:42 precious").await;
        let inner = rig.locks.with_lock(KEY, async { never() });
        let error = inner.await.unwrap_err();
        assert!(matches!(error, LockError::Store { .. }), "{error:?}");
        pending::<()>().await;
    });
    let error = within(DEADLINE, "the loss is noticed", outer)
        .await
        .unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    assert_eq!(rig.server.ask("GET order:42").await, "precious");
    assert_eq!(rig.server.ask("PTTL order:42").await, "-1");
}

#[tokio::test]
async fn scripts_may_be_flushed_between_any_two_steps() {
    let rig = Rig::with_ttl(Duration::from_secs(3)).await;
    let flush = async || rig.server.ask("SCRIPT FLUSH").await;
    flush().await;
    let outer = rig.locks.with_lock(KEY, async {
        flush().await;
        let inner = rig.locks.with_lock(KEY, async {
            assert_eq!(rig.depth().await, 2);
            flush().await;
            rig.locks.inspect(KEY).await.unwrap().unwrap()
        });
        assert_eq!(inner.await.unwrap().holders[0].depth, 2);
        assert_eq!(rig.depth().await, 1);
        flush().await;
        // The renewal after it.
        let executed = rig.executed().await;
        rig.until_executed(executed, 2).await;
        flush().await;
        "output"
    });
    assert_eq!(outer.await.unwrap(), "output");
    rig.until_free().await;
    let guard = rig.locks.lock(KEY).await.unwrap();
    flush().await;
    assert!(rig.locks.force_release(KEY).await.unwrap());
    flush().await;
    assert!(is_gone(guard.release().await));
}
