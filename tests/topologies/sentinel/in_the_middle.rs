//! P7, P8 and P13 where the primary is replaced while a request is under way: the old one has it, and answers no more.

use std::time::Duration;

use super::ground::{
    Lease, PATIENCE, SOON, builder, depth, unhurried, until_depth, until_free, until_inboxes,
    until_replicated,
};
use crate::support::rig::KEY;
use crate::support::{SentinelSet, Turns, eventually, processes, until_queued, within};
use reentry::HandOff;

/// The primary stands still until another one has replaced it. Then it goes on, and executes what it was sent.
async fn replaced(set: &SentinelSet, from: usize) -> usize {
    let to = set.until_failed_over(from).await;
    set.nodes[from].resume();
    to
}

#[tokio::test]
async fn an_acquire_enters_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    set.nodes[0].pause();
    let acquiring = tokio::spawn(locks.lock(KEY).acquire());
    let new = replaced(&set, 0).await;
    let guard = within(PATIENCE, "it enters", acquiring).await;
    let guard = guard.unwrap().unwrap();
    assert_eq!(depth(&set.nodes[new], KEY).await, 1);
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn an_acquire_that_is_dropped_leaves_nothing_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    set.nodes[0].pause();
    let acquiring = tokio::spawn(locks.lock(KEY).acquire());
    let new = set.until_failed_over(0).await;
    acquiring.abort();
    // It may have entered by then, and leaves.
    drop(acquiring.await);
    let guard = locks.lock(KEY).await.unwrap();
    assert_eq!(depth(&set.nodes[new], KEY).await, 1);
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn several_locks_are_taken_together_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let keys = ["order:1", "order:2", "order:3"];
    set.nodes[0].pause();
    let locked = tokio::spawn(locks.lock_all(keys).run(tokio::task::yield_now()));
    let new = replaced(&set, 0).await;
    let locked = within(PATIENCE, "they are taken", locked).await;
    locked.unwrap().unwrap();
    until_free(&set.nodes[new]).await;
}

/// The waiters of several processes keep their order, which the replicas have.
#[tokio::test]
async fn waiters_enter_in_their_order() {
    let set = SentinelSet::start().await;
    let [holder, one, two, three] = processes(&unhurried(&set)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for (count, (name, locks)) in [("one", &one), ("two", &two), ("three", &three)]
        .into_iter()
        .enumerate()
    {
        turns.request(locks.lock(KEY), name);
        until_queued(&set.nodes[0], count as u64 + 1).await;
    }
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    let new = replaced(&set, 0).await;
    until_inboxes(&set.nodes[new], 3).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["one", "two", "three"]);
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn a_nested_entry_is_counted_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    let (inside, is_inside) = tokio::sync::oneshot::channel();
    let (leave, may_leave) = tokio::sync::oneshot::channel::<()>();
    let body = async move {
        inside.send(()).unwrap();
        may_leave.await.unwrap();
    };
    let nested = guard.scope(locks.with_lock(KEY, body));
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
    until_depth(&set.nodes[new], 1).await;
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn a_renewal_is_made_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let ttl = Duration::from_secs(20);
    let locks = builder(&set).ttl(ttl).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    // It is due after a third of the lease.
    let is_due = async || guard.held().remaining() < ttl * 2 / 3 + Duration::from_millis(300);
    eventually(PATIENCE, "a renewal is due", is_due).await;
    let lease = Lease::of(&set.nodes[0]).await;
    set.nodes[0].pause();
    let new = replaced(&set, 0).await;
    lease.until_renewed_in(&set.nodes[new]).await;
    let confirmed = async || guard.held().remaining() > ttl * 2 / 3;
    eventually(PATIENCE, "the renewal is confirmed", confirmed).await;
    assert!(!guard.held().is_lost());
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

/// The release goes on until the new primary has it, and there the lock moves.
#[tokio::test]
async fn a_lock_is_handed_on_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let [here, there] = processes(&unhurried(&set)).await;
    let guard = here.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut waiter = turns.stay(there.lock(KEY), "waiter");
    until_queued(&set.nodes[0], 1).await;
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    drop(guard);
    let new = replaced(&set, 0).await;
    within(SOON, "the waiter enters", waiter.entered()).await;
    assert_eq!(depth(&set.nodes[new], KEY).await, 1);
    waiter.leave();
    turns.all().await;
    until_free(&set.nodes[new]).await;
}

async fn a_lock_goes_on_in_its_process(handoff: HandOff) {
    let set = SentinelSet::start().await;
    let locks = unhurried(&set).handoff(handoff).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.come(&locks, "next").await;
    turns.come(&locks, "last").await;
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    drop(guard);
    let new = replaced(&set, 0).await;
    assert_eq!(turns.names().await, ["next", "last"]);
    until_free(&set.nodes[new]).await;
}

/// The successor is named in the release, which is repeated.
#[tokio::test]
async fn a_lock_goes_on_to_the_next_caller_in_the_new_primary() {
    a_lock_goes_on_in_its_process(HandOff::InStore).await;
}

/// The last one releases in the new primary.
#[tokio::test]
async fn a_lock_goes_on_in_memory_meanwhile() {
    a_lock_goes_on_in_its_process(HandOff::InProcess).await;
}

#[tokio::test]
async fn a_release_is_made_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    let finished = locks.lock("finished").await.unwrap();
    until_replicated(&set, 0).await;
    set.nodes[0].pause();
    drop(guard);
    let released = tokio::spawn(finished.release());
    let new = replaced(&set, 0).await;
    within(PATIENCE, "the release", released)
        .await
        .unwrap()
        .unwrap();
    // Long before the leases end.
    let free = async || set.nodes[new].leftovers().await.is_empty();
    eventually(SOON, "both locks are released", free).await;
}

/// A body that has ended under a valid lease returns its output.
#[tokio::test]
async fn a_result_stands_though_its_lock_is_released_in_the_new_primary() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let body = async {
        until_replicated(&set, 0).await;
        set.nodes[0].pause();
        6 * 7
    };
    let locked = locks.with_lock(KEY, body);
    let (output, new) = tokio::join!(locked, replaced(&set, 0));
    assert_eq!(output.unwrap(), 42);
    until_free(&set.nodes[new]).await;
}
