//! The locks of all primaries in one list.

use crate::support::{Cluster, patient_at};
use reentry::{LockError, Locks};
use std::collections::BTreeSet;

/// The keys in a list, and whether a key was listed twice.
async fn listed(locks: &Locks, pattern: &str) -> Result<BTreeSet<String>, LockError> {
    let mut keys = BTreeSet::new();
    let (mut list, mut progress) = (locks.list(pattern).page(10), 0.0);
    while let Some(page) = list.next_page().await? {
        for lock in page {
            assert_eq!(lock.holders, 1, "{lock:?}");
            assert!(
                keys.insert(lock.key),
                "a key came twice although nothing has moved"
            );
        }
        assert!(list.progress() >= progress);
        progress = list.progress();
    }
    Ok(keys)
}

#[tokio::test]
async fn a_list_has_the_locks_of_every_primary_of_a_cluster() {
    let cluster = Cluster::start().await;
    let url = format!("redis+cluster://{}", cluster.seeds());
    let locks = patient_at(&url).prefix("app:").build().await.unwrap();
    let keys: Vec<_> = (0..60).map(|number| format!("order:{number}")).collect();
    let mut guards = Vec::new();
    for key in &keys {
        guards.push(locks.lock(key).await.unwrap());
    }
    let mut owners = BTreeSet::new();
    for key in &keys {
        owners.insert(cluster.owner_of(&format!("app:{key}")).await);
    }
    assert_eq!(owners.len(), 3);
    let expected: BTreeSet<_> = keys.iter().cloned().collect();
    assert_eq!(listed(&locks, "order:*").await.unwrap(), expected);
    assert_eq!(listed(&locks, "stock:*").await.unwrap(), BTreeSet::new());
}

#[tokio::test]
async fn a_list_that_was_broken_off_by_a_failover_goes_on_at_the_new_primary() {
    let cluster = Cluster::start().await;
    let url = format!("redis+cluster://{}", cluster.seeds());
    let locks = patient_at(&url).build().await.unwrap();
    let mut guards = Vec::new();
    for number in 0..60 {
        guards.push(locks.lock(format!("order:{number}")).await.unwrap());
    }
    let mut list = locks.list("*").page(5);
    let mut keys = BTreeSet::new();
    keys.extend(
        list.next_page()
            .await
            .unwrap()
            .unwrap()
            .into_iter()
            .map(|it| it.key),
    );
    let replica = cluster.replica_of(0).await;
    cluster.failover(replica).await;
    // While the map is learnt a page may fail, and is requested again.
    loop {
        match list.next_page().await {
            Ok(Some(page)) => keys.extend(page.into_iter().map(|lock| lock.key)),
            Ok(None) => break,
            Err(LockError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(keys.len(), 60);
}
