//! A replica takes over. Locks that were replicated stay held, and the loss of the others is noticed.

use std::future::pending;
use std::sync::Arc;

use super::kit::{
    PATIENCE, TTL, all_turns, caller, cut_lease, key_on, locks_in, until_nothing_is_left,
    until_queued, until_renewed, until_there,
};
use crate::support::told::lost;
use crate::support::{Cluster, Section, processes, until_depths, within};
use reentry::LostReason;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    Stopped,
    Planned,
}

/// A lock is held, nested and released during a failover, while callers of both processes wait for it.
async fn survives(end: End) {
    let cluster = Cluster::start().await;
    let [holder, other] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, 0).await;
    let slot = cluster.slot_of(&key).await;
    let section = Arc::<Section>::default();
    let guard = holder.lock(&key).await.unwrap();
    let token = guard.held().fencing_token();
    let waiting = [&other, &holder, &other].map(|locks| caller(locks, &key, &section));
    let old = &cluster.nodes[0];
    until_queued(old, &key, 2).await;
    let replica = cluster.replica_of(0).await;
    cut_lease(old, &key).await;
    old.until_replicated_to(&cluster.nodes[replica]).await;

    match end {
        End::Killed => old.stop(),
        End::Stopped => old.pause(),
        End::Planned => cluster.failover(replica).await,
    }
    assert_eq!(cluster.until_failed_over(slot, 0).await, replica);
    let new = &cluster.nodes[replica];
    until_renewed(new, &key).await;
    let nested = guard.scope(holder.with_lock(&key, async {
        until_depths(&other, &key, &[2]).await;
    }));
    let nested = within(PATIENCE, "a nested entry", nested).await;
    nested.unwrap().unwrap();
    assert!(!guard.held().is_lost() && section.visits() == 0);
    guard.release().await.unwrap();
    all_turns(waiting).await;
    assert_eq!(section.visits(), 3);

    let later = within(PATIENCE, "another one", other.lock(&key).acquire()).await;
    let later = later.unwrap();
    assert!(later.held().fencing_token() > token);
    later.release().await.unwrap();
    if end == End::Stopped {
        old.resume();
    }
    until_nothing_is_left(&cluster).await;
}

#[tokio::test]
async fn a_replicated_lock_survives_the_death_of_its_node() {
    survives(End::Killed).await;
}

#[tokio::test]
async fn a_replicated_lock_survives_the_silence_of_its_node() {
    survives(End::Stopped).await;
}

/// The node that had the lock is a replica from then on, and would reject writes.
#[tokio::test]
async fn a_lock_survives_a_planned_failover() {
    survives(End::Planned).await;
}

/// Leases are long, so no renewal would be due before the end of the test.
#[tokio::test]
async fn a_lock_that_the_replica_never_had_is_lost_at_once() {
    let cluster = Cluster::start().await;
    let [holder, other] = processes(&locks_in(&cluster).ttl(20 * TTL)).await;
    let key = key_on(&cluster, 0).await;
    let slot = cluster.slot_of(&key).await;
    let earlier = holder.lock(&key).await.unwrap();
    let token = earlier.held().fencing_token();
    earlier.release().await.unwrap();
    let old = &cluster.nodes[0];
    let replica = cluster.replica_of(0).await;
    old.until_replicated_to(&cluster.nodes[replica]).await;
    old.cut_replication().await;
    let body = tokio::spawn(holder.with_lock(&key, pending::<()>()));
    until_there(old, &key, true).await;
    old.stop();
    assert_eq!(cluster.until_failed_over(slot, 0).await, replica);
    let ended = within(PATIENCE, "the loss is noticed", body).await.unwrap();
    assert_eq!(lost(ended).1, LostReason::Deleted);
    let next = within(PATIENCE, "the next one", other.lock(&key).acquire()).await;
    let next = next.unwrap();
    assert!(next.held().fencing_token() > token);
    next.release().await.unwrap();
    until_nothing_is_left(&cluster).await;
}
