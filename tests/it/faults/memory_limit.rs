//! A server that has reached its memory limit (with `noeviction`, as it must run): no new caller gets
//! in, and a holder renews, nests and gets out.

use std::error::Error;
use std::time::Duration;

use crate::support::proxy::Direction::ToServer;
use crate::support::rig::KEY;
use crate::support::{Action, Cut, DEADLINE, Rig, within};
use reentry::LockError;

/// Nothing that needs memory is executed any more.
async fn fill(rig: &Rig) {
    rig.server.ask("CONFIG SET maxmemory 1").await;
}

async fn empty(rig: &Rig) {
    rig.server.ask("CONFIG SET maxmemory 0").await;
}

#[tokio::test]
async fn an_acquire_is_tried_again_and_ends_as_a_timeout_that_tells_of_the_memory() {
    let rig = Rig::start().await;
    fill(&rig).await;
    let wait = Duration::from_millis(200);
    let waiting = rig.locks.lock(KEY).wait(wait).acquire();
    let error = within(DEADLINE, "the wait ends", waiting)
        .await
        .unwrap_err();
    let LockError::Timeout { source, .. } = &error else {
        panic!("not a timeout, but {error:?}");
    };
    let source = source.as_ref().expect("what the server said");
    assert!(!source.is_outcome_unknown(), "nothing was executed");
    let cause = source.source().unwrap().to_string();
    assert!(cause.contains("OOM"), "{cause}");
    assert_eq!(rig.server.ask("DBSIZE").await, "0", "no half-made lock");

    let refused = rig.locks.lock(KEY).try_acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Store { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_waiter_enters_when_there_is_memory_again() {
    let rig = Rig::start().await;
    fill(&rig).await;
    let waiting = tokio::spawn(rig.locks.with_lock(KEY, async {}));
    let before = rig.executed().await;
    rig.until_executed(before, 2).await;
    empty(&rig).await;
    within(DEADLINE, "it enters", waiting)
        .await
        .unwrap()
        .unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_holder_gets_out() {
    let rig = Rig::start().await;
    let locked = rig.locks.with_lock(KEY, fill(&rig));
    locked.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_holder_with_an_unanswered_acquire_gets_out_and_leaves_its_tombstone() {
    let rig = Rig::start().await;
    let cut = Action::CutAtAnswer(Cut::Reset);
    rig.proxy.on_next(ToServer, b"EVALSHA", cut);
    rig.locks.with_lock(KEY, fill(&rig)).await.unwrap();
    rig.until_free().await;
    assert_eq!(rig.server.tombstones().await, 1);
}

#[tokio::test]
async fn a_holder_renews() {
    let rig = Rig::with_ttl(Duration::from_secs(3)).await;
    let locked = rig.locks.with_lock(KEY, async {
        fill(&rig).await;
        let before = rig.executed().await;
        rig.until_executed(before, 2).await;
        assert!(rig.pttl().await > 1_500);
    });
    locked.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_holder_nests() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        fill(&rig).await;
        let inner = rig.locks.with_lock(KEY, async { rig.depth().await });
        let nested = within(DEADLINE, "it nests", inner).await;
        assert_eq!(nested.unwrap(), 2);
        assert_eq!(rig.depth().await, 1);
    });
    outer.await.unwrap();
    rig.until_free().await;
    assert_eq!(rig.server.ask("DBSIZE").await, "0");
}
