//! P1, P5 and P9 when the primary goes down: the data that the replicas have is kept.

use super::ground::{
    Lease, PATIENCE, SOON, builder, depth, unhurried, until_free, until_inboxes, until_replicated,
};
use crate::support::rig::KEY;
use crate::support::{SentinelSet, Turns, eventually, processes, until_queued, within};
use futures_util::future::join_all;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    Killed,
    StandsStill,
    ShutDown,
}

async fn a_lock_and_its_queue_outlive(outage: Outage) {
    let set = SentinelSet::start().await;
    let [here, there] = processes(&unhurried(&set)).await;
    let guard = here.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut waiter = turns.stay(there.lock(KEY), "waiter");
    until_queued(&set.nodes[0], 1).await;
    let lease = Lease::of(&set.nodes[0]).await;
    match outage {
        Outage::Killed => {
            until_replicated(&set, 0).await;
            set.nodes[0].stop();
        }
        Outage::StandsStill => {
            until_replicated(&set, 0).await;
            set.nodes[0].pause();
        }
        // It waits for its replicas by itself.
        Outage::ShutDown => set.nodes[0].shut_down().await,
    }
    let primary = &set.nodes[set.until_failed_over(0).await];
    lease.until_renewed_in(primary).await;
    until_inboxes(primary, 2).await;
    assert!(!waiter.has_entered() && !guard.held().is_lost());
    assert_eq!(depth(primary, KEY).await, 1);
    if outage == Outage::StandsStill {
        // It considers itself a primary until the sentinels have reconfigured it.
        set.nodes[0].resume();
    }
    guard.release().await.unwrap();
    within(SOON, "the message reaches the waiter", waiter.entered()).await;
    waiter.leave();
    assert_eq!(turns.all().await.len(), 1);
    until_free(primary).await;
}

#[tokio::test]
async fn a_lock_and_its_queue_outlive_a_primary_that_is_killed() {
    a_lock_and_its_queue_outlive(Outage::Killed).await;
}

#[tokio::test]
async fn a_lock_and_its_queue_outlive_a_primary_that_stands_still() {
    a_lock_and_its_queue_outlive(Outage::StandsStill).await;
}

#[tokio::test]
async fn a_lock_and_its_queue_outlive_a_primary_that_is_shut_down() {
    a_lock_and_its_queue_outlive(Outage::ShutDown).await;
}

/// It stays there until its lease ends, or an operator ends it.
#[tokio::test]
async fn a_lock_whose_release_was_not_replicated_stays_held() {
    let set = SentinelSet::start().await;
    let [here, there] = processes(&unhurried(&set)).await;
    let guard = here.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    set.nodes[0].cut_replication().await;
    guard.release().await.unwrap();
    set.nodes[0].stop();
    let primary = &set.nodes[set.until_failed_over(0).await];
    assert_eq!(depth(primary, KEY).await, 1);
    assert!(there.admin().force_release(KEY).await.unwrap());
    let entered = there.lock(KEY).no_wait().run(async {}).await;
    entered.unwrap();
}

/// Data that was never replicated is gone. The holder notices that, and the next one has a greater token.
#[tokio::test]
async fn a_lock_that_was_not_replicated_is_lost_and_its_holder_is_told() {
    let set = SentinelSet::start().await;
    let [here, there] = processes(&builder(&set)).await;
    set.nodes[0].cut_replication().await;
    let guard = here.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(there.lock(KEY).acquire());
    until_queued(&set.nodes[0], 1).await;
    set.nodes[0].stop();
    let new = set.until_failed_over(0).await;
    within(PATIENCE, "the loss is told", guard.held().lost()).await;
    let next = within(PATIENCE, "the waiter enters", waiting).await;
    let next = next.unwrap().unwrap();
    assert!(next.held().fencing_token() > guard.held().fencing_token());
    assert!(guard.release().await.is_err_and(|error| error.is_lost()));
    next.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn locks_stay_where_they_are_when_the_old_primary_comes_back() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    set.nodes[0].stop();
    set.until_failed_over(0).await;
    // It has no data, and considers itself a primary until the sentinels have reconfigured it.
    set.nodes[0].start_again().await;
    let mut count = 0;
    let is_replica = async || {
        count += 1;
        let key = format!("order:{count}:again");
        let others = set.nodes[1..].iter().map(|node| depth(node, &key));
        let entered = locks.with_lock(&key, join_all(others)).await;
        // On a busy machine the sentinels may choose a third server, and the lock is lost with the second one.
        let is_elsewhere = |depths: Vec<_>| depths.contains(&1);
        assert!(entered.map_or_else(|error| error.is_lost(), is_elsewhere));
        set.nodes[0].is_linked().await
    };
    eventually(PATIENCE, "the old primary is a replica", is_replica).await;
    assert!(!set.nodes[0].commandstats().await.contains_key("evalsha"));
    assert!(!guard.held().is_lost());
    guard.release().await.unwrap();
    let free = async || {
        locks
            .admin()
            .inspect(KEY)
            .await
            .is_ok_and(|info| info.is_none())
    };
    eventually(PATIENCE, "the lock is free", free).await;
}
