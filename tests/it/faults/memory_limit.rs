//! A server that has reached its memory limit (with `noeviction`, as it must run). No new caller enters, and a holder
//! can leave. Renewals and nested entries in that time are tested in the contract of the stores.

use std::error::Error;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, Rig, within};
use reentry::LockError;

#[tokio::test]
async fn a_full_memory_is_tried_again_and_named_when_the_wait_ends() {
    let rig = Rig::start().await;
    // No command that needs memory is executed any more.
    rig.server.ask("CONFIG SET maxmemory 1").await;
    let waiting = rig.locks.lock(KEY).wait(Duration::from_millis(200));
    let error = within(DEADLINE, "the wait ends", waiting.acquire()).await;
    let error = error.unwrap_err();
    let LockError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(!source.is_outcome_unknown(), "nothing was executed");
    let cause = source.source().unwrap().to_string();
    assert!(cause.contains("OOM"), "{cause}");
    let refused = rig.locks.lock(KEY).try_acquire().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
    assert_eq!(rig.server.key_count().await, 0, "no half-made lock");

    let waiting = tokio::spawn(rig.locks.with_lock(KEY, async {}));
    let before = rig.executed().await;
    rig.until_executed(before, 2).await;
    rig.server.ask("CONFIG SET maxmemory 0").await;
    let entered = within(DEADLINE, "it enters", waiting).await;
    entered.unwrap().unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_full_server_takes_none_of_several_and_lets_them_go() {
    let rig = Rig::start().await;
    let guard = rig.locks.lock_all(["a", "b", "c"]).await.unwrap();
    rig.server.ask("CONFIG SET maxmemory 1").await;
    let several = || rig.locks.lock_all(["x", "y"]);
    let error = several()
        .wait(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let refused = several().no_wait().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
    guard.release().await.unwrap();
    assert_eq!(rig.server.key_count().await, 0);
    rig.server.ask("CONFIG SET maxmemory 0").await;
    several().run(async {}).await.unwrap();
}
