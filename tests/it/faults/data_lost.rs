//! P6 when another program takes the lock away or replaces it, and the scripts when the server forgets them.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, Rig, eventually, within};
use futures_util::future::join_all;
use reentry::{LockError, LostReason};

fn never() {
    panic!("the body of a lock that is not held");
}

#[tokio::test]
async fn a_lock_taken_away_is_lost_at_the_next_renewal_and_the_body_is_dropped() {
    let thefts = ["DEL order:42", "FLUSHALL", "PEXPIRE order:42 0"];
    let each = thefts.map(async |theft| {
        let rig = Rig::with_ttl(Duration::from_secs(3)).await;
        let locked = rig.locks.with_lock(KEY, async {
            rig.server.ask(theft).await;
            pending::<()>().await;
        });
        let lost = within(DEADLINE, "the loss is noticed", locked).await;
        let Err(LockError::Lost { reason, key, .. }) = lost else {
            panic!("{theft}: {lost:?}");
        };
        assert!(reason == LostReason::Deleted && key == KEY, "{theft}");
    });
    join_all(each).await;
}

#[tokio::test]
async fn something_else_at_the_key_is_a_misuse_that_names_it_and_stays() {
    let rig = Rig::start().await;
    for (put, kind) in [
        ("SET order:42 precious", "string"),
        ("RPUSH order:42 precious", "list"),
        ("ZADD order:42 1 precious", "zset"),
    ] {
        rig.server.ask(put).await;
        let locked = rig.locks.with_lock(KEY, async { never() });
        // This is immediate, and not after the wait.
        let refused = within(DEADLINE / 2, "it is refused", locked).await;
        let error = refused.unwrap_err();
        assert!(error.is_misuse() && !error.is_unavailable(), "{error:?}");
        assert_eq!(
            error.to_string(),
            "`order:42` holds something other than a lock: does another program use this key, for example with SET NX?"
        );
        let LockError::Misuse {
            key,
            source: Some(source),
            ..
        } = error
        else {
            panic!("not a misuse, but {error:?}");
        };
        assert_eq!(key.as_deref(), Some(KEY));
        let cause = source.source().expect("what the server said").to_string();
        assert!(cause.contains("WRONGTYPE"), "{cause}");
        for neighbour in [
            rig.locks.admin().inspect(KEY).await.map(drop),
            rig.locks.admin().force_release(KEY).await.map(drop),
            rig.locks.lock(KEY).try_acquire().await.map(drop),
            rig.locks.lock(KEY).read().acquire().await.map(drop),
            rig.locks.lock(KEY).read().run(async {}).await,
            rig.locks.lock_all([KEY, "order:43"]).await.map(drop),
        ] {
            let error = neighbour.unwrap_err();
            assert!(error.is_misuse() && !error.is_unavailable(), "{error:?}");
        }
        assert_eq!(rig.server.ask("TYPE order:42").await, kind);
        assert_eq!(rig.server.ask("PTTL order:42").await, "-1");
        assert_eq!(rig.server.key_count().await, 1, "and nothing beside it");
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
        // Its change of the depth is rejected in the background.
        rig.locks.with_lock(KEY, pending::<()>()).await.unwrap();
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
    let rig = Rig::start().await;
    let flush = async || drop(rig.server.ask("SCRIPT FLUSH").await);
    flush().await;
    let outer = rig.locks.with_lock(KEY, async {
        flush().await;
        let inner = rig.locks.with_lock(KEY, async {
            rig.until_depth(2).await;
            flush().await;
        });
        inner.await.unwrap();
        rig.until_depth(1).await;
        flush().await;
    });
    outer.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn of_several_keys_the_one_that_is_no_lock_is_named_and_none_is_taken() {
    let rig = Rig::start().await;
    let keys = ["b", "c", KEY];
    for wrong in keys {
        rig.server.ask(&format!("SET {wrong} precious")).await;
        let several = || rig.locks.lock_all(keys);
        for request in [several(), several().no_wait()] {
            let error = request.await.unwrap_err();
            assert!(matches!(error, LockError::Misuse { .. }), "{error}");
            assert_eq!(error.key(), Some(wrong), "{error}");
            let alone = async || rig.server.key_count().await == 1;
            eventually(DEADLINE, "nothing is taken", alone).await;
        }
        assert_eq!(rig.server.ask(&format!("GETDEL {wrong}")).await, "precious");
    }
}
