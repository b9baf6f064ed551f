//! The servers that must be available when a `Locks` is built.

use std::error::Error;

use super::kit::{PATIENCE, TTL, key_on, keys};
use crate::support::ports::Port;
use crate::support::{Cluster, patient_at, within};
use reentry::{LockError, Locks, LocksBuilder};

fn with_seeds(seeds: &[String]) -> LocksBuilder {
    let url = format!("redis+cluster://{}", seeds.join(","));
    patient_at(url).ttl(TTL).wait(PATIENCE)
}

/// A section on each primary.
async fn works_everywhere(cluster: &Cluster, locks: &Locks) {
    for key in keys(cluster).await {
        let section = locks.with_lock(&key, async {});
        within(PATIENCE, "a section", section).await.unwrap();
    }
}

/// Ports on which no server listens. All of them are less than that of any server.
fn dead_ports() -> Vec<String> {
    (1..=9).map(|port| format!("127.0.0.1:{port}")).collect()
}

#[tokio::test]
async fn a_cluster_is_reached_through_any_of_its_servers() {
    let cluster = Cluster::start().await;
    for node in [0, 2, 4] {
        let seed = cluster.nodes[node].address();
        let mut seeds = dead_ports();
        seeds.push(seed.clone());
        let locks = with_seeds(&[seed]).build().await.unwrap();
        works_everywhere(&cluster, &locks).await;
        let url = format!("redis+cluster://{}", seeds.join(","));
        let locks = patient_at(url).build().await.unwrap();
        works_everywhere(&cluster, &locks).await;
    }
}

/// The first of the servers that have slots, according to the one that responds, is dead.
#[tokio::test]
async fn a_primary_that_is_away_keeps_no_locks_from_being_built() {
    let cluster = Cluster::start().await;
    cluster.nodes[0].stop();
    let seed = cluster.nodes[cluster.replica_of(1).await].address();
    let locks = with_seeds(&[seed]).build().await.unwrap();
    let key = key_on(&cluster, 2).await;
    locks.with_lock(&key, async {}).await.unwrap();
    // Its replica takes over.
    works_everywhere(&cluster, &locks).await;
}

#[tokio::test]
async fn an_error_names_the_servers_that_do_not_answer() {
    let ports = [(); 7].map(|()| Port::reserve());
    let seeds = ports
        .each_ref()
        .map(|port| format!("127.0.0.1:{}", port.number));
    let built = with_seeds(&seeds).build();
    let error = within(PATIENCE, "the refusal", built).await.unwrap_err();
    let LockError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(error.is_unavailable() && !source.is_outcome_unknown());
    let text = source.to_string();
    assert!(seeds.iter().all(|seed| text.contains(seed)), "{text}");
    assert!(source.source().is_some(), "what one of them said: {text}");
}
