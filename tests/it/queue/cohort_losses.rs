//! The failures of hand-offs in memory. A loss or a drop affects only one member. The next one continues, or sends its
//! own request.

use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::told::lost;
use crate::support::{
    DEADLINE, RedisServer, Turns, depths, eventually, processes, unhurried, until_waiting, waiters,
    within,
};
use futures_util::FutureExt;
use reentry::__admin::Ids as _;
use reentry::{Locks, LostReason, held};
use tokio::sync::oneshot;

/// A TTL that is short enough for early renewals, and much longer than the pauses of a busy machine.
const LEASE: Duration = Duration::from_secs(6);

async fn ground() -> (RedisServer, Locks, Locks) {
    let server = RedisServer::start().await;
    let builder = unhurried(&server).ttl(LEASE);
    let [locks, elsewhere] = processes(&builder).await;
    // If no token of the key is known, an acquisition gets only one, and forms no group.
    locks.with_lock(KEY, async {}).await.unwrap();
    (server, locks, elsewhere)
}

#[tokio::test]
async fn a_lost_lease_is_lost_only_for_the_current_holder() {
    let (_server, locks, elsewhere) = ground().await;
    let guard = locks.lock(KEY).await.unwrap();
    let (first, token) = (guard.held().clone(), guard.held().fencing_token());
    let (entered, has_entered) = oneshot::channel();
    let present = tokio::spawn(locks.with_lock(KEY, async move {
        entered.send(held(KEY).unwrap()).unwrap();
        pending::<()>().await;
    }));
    until_waiting(&locks, KEY, 1).await;
    let mut turns = Turns::default();
    turns.come(&locks, "next").await;
    guard.release().await.unwrap();
    let present_held = within(DEADLINE, "the member", has_entered).await.unwrap();
    assert_eq!(present_held.hold_id(), first.hold_id());
    assert!(elsewhere.admin().force_release(KEY).await.unwrap());
    let ended = within(DEADLINE, "the loss", present).await.unwrap();
    assert_eq!(lost(ended).1, LostReason::Deleted);
    assert!(present_held.is_lost() && !first.is_lost());
    assert!(first.lost().now_or_never().is_none());
    // The next one does not inherit a lost lock. It has sent its own request, and has a hold of its own.
    let next = turns.all().await.remove(0);
    assert_ne!(next.hold, first.hold_id());
    assert!(next.token > present_held.fencing_token() && next.token > token);
}

/// A future that began under the lock of a former member and is polled after its end is not part of the present member,
/// although both show the same hold.
#[tokio::test]
async fn a_future_of_a_former_holder_cannot_re_enter() {
    let (_server, locks, _) = ground().await;
    let (go_on, may_go_on) = oneshot::channel::<()>();
    let mut turns = Turns::default();
    let late = turns.turn("late");
    let former = locks.with_lock(KEY, async {
        let hold = held(KEY).unwrap().hold_id();
        let (inside, mut is_inside) = oneshot::channel();
        let inner = locks.with_lock("inner", async {
            inside.send(held(KEY).is_some()).unwrap();
            may_go_on.await.unwrap();
            assert!(held(KEY).is_none(), "the former member's part has ended");
            locks.with_lock(KEY, late).await.unwrap();
        });
        let mut inner = Box::pin(inner);
        // It has entered its own lock, and is no longer polled there.
        let entered = async || {
            assert!((&mut inner).now_or_never().is_none());
            is_inside.try_recv().is_ok_and(|held| held)
        };
        eventually(DEADLINE, "the inner lock", entered).await;
        (hold, inner)
    });
    // The next member joins while the former one is inside.
    let mut former = Box::pin(former);
    let inside = async || {
        assert!((&mut former).now_or_never().is_none());
        depths(&locks, KEY).await == [1]
    };
    eventually(DEADLINE, "the former member", inside).await;
    let mut present = turns.stay(locks.lock(KEY), "present");
    until_waiting(&locks, KEY, 1).await;
    let (hold, mut inner) = within(DEADLINE, "its end", former).await.unwrap();
    present.entered().await;
    assert_eq!(turns.so_far()[0].hold, hold, "a member of the same group");

    go_on.send(()).unwrap();
    let waits = async || {
        assert!((&mut inner).now_or_never().is_none());
        waiters(&locks, KEY).await == Some(1)
    };
    eventually(DEADLINE, "it waits like any other", waits).await;
    assert_eq!(depths(&locks, KEY).await, [1]);
    present.leave();
    within(DEADLINE, "its turn", inner).await.unwrap();
    let seen = turns.all().await;
    assert_eq!(seen[1].name, "late");
    assert_eq!(seen[1].depth, 1);
    assert!(seen[1].token > seen[0].token);
}
