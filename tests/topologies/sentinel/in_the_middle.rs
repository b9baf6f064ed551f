//! P7, P8 and P13 when the primary is replaced while a request is in flight: the old primary has it, and no longer
//! responds.

use super::ground::{PATIENCE, SOON, builder, depth, until_depth, until_free, until_replicated};
use crate::support::rig::KEY;
use crate::support::{SentinelSet, eventually, within};
use tokio::sync::oneshot;

/// The primary is stalled until another one has replaced it. Then it continues, and executes the requests that it had
/// received.
async fn replaced(set: &SentinelSet, from: usize) -> usize {
    let to = set.until_failed_over(from).await;
    set.nodes[from].resume();
    to
}

/// The requests in flight are those of held locks: a nested entry, releases, and the end of a body, whose output is
/// kept.
#[tokio::test]
async fn a_hold_is_nested_and_released_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    let dropped = locks.lock("dropped").await.unwrap();
    let finished = locks.lock("finished").await.unwrap();
    let (end, ended) = oneshot::channel();
    let body = tokio::spawn(locks.with_lock("ends", async { ended.await.unwrap() }));
    let runs = async || depth(&set.nodes[0], "ends").await == 1;
    eventually(PATIENCE, "the body runs", runs).await;
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    drop(dropped);
    let finished = tokio::spawn(finished.release());
    end.send(42).unwrap();
    let (inside, is_inside) = oneshot::channel();
    let (leave, may_leave) = oneshot::channel();
    let nested = guard.scope(locks.with_lock(KEY, async move {
        inside.send(()).unwrap();
        may_leave.await.unwrap();
    }));
    let failover = async {
        let new = replaced(&set, 0).await;
        within(PATIENCE, "the nested entry", is_inside)
            .await
            .unwrap();
        until_depth(&set.nodes[new], 2).await;
        leave.send(()).unwrap();
        new
    };
    let (nested, new) = tokio::join!(nested, failover);
    nested.unwrap().unwrap();
    let output = within(PATIENCE, "the output", body).await.unwrap();
    assert_eq!(output.unwrap(), 42);
    let released = within(PATIENCE, "the release", finished).await.unwrap();
    released.unwrap();
    // The others are released as well, long before their leases expire.
    let one = async || set.nodes[new].leftovers().await.len() <= 2;
    eventually(SOON, "the others are free", one).await;
    until_depth(&set.nodes[new], 1).await;
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}
