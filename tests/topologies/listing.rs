//! The locks of all primaries in one list, and the servers one by one.

use crate::support::rig::KEY;
use crate::support::{
    Cluster, DEADLINE, RedisServer, SentinelSet, eventually, patient, patient_at,
};
use reentry::__admin::{Reply, Role, Server};
use reentry::{LockError, Locks};
use std::collections::BTreeSet;

/// The keys in a list, and whether one came twice.
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
    // While the map is learnt a page may fail, and is asked for again.
    loop {
        match list.next_page().await {
            Ok(Some(page)) => keys.extend(page.into_iter().map(|lock| lock.key)),
            Ok(None) => break,
            Err(LockError::Store { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(keys.len(), 60);
}

/// The roles, and where they are.
fn places(servers: &[Server]) -> BTreeSet<(Role, String)> {
    let places = servers.iter();
    places
        .map(|it| (it.role().clone(), it.address().to_owned()))
        .collect()
}

fn at(role: &Role, servers: impl IntoIterator<Item = String>) -> Vec<(Role, String)> {
    servers
        .into_iter()
        .map(|place| (role.clone(), place))
        .collect()
}

async fn all_answer(servers: &[Server]) {
    for server in servers {
        let reply = server.command(["PING"]).await.unwrap();
        assert_eq!(reply, Reply::Text("PONG".to_owned()), "{server:?}");
    }
}

#[tokio::test]
async fn the_servers_of_a_cluster_are_its_primaries_and_their_replicas() {
    let cluster = Cluster::start().await;
    let locks = patient_at(format!("redis+cluster://{}", cluster.seeds()));
    let locks = locks.build().await.unwrap();
    let mut replicas = Vec::new();
    for primary in 0..3 {
        replicas.push(cluster.replica_of(primary).await);
    }
    let (mut expected, mut others) = (Vec::new(), Vec::new());
    for (index, node) in cluster.nodes.iter().enumerate() {
        let of = if replicas.contains(&index) {
            &mut others
        } else {
            &mut expected
        };
        of.push(node.address());
    }
    let mut expected = at(&Role::Primary, expected);
    expected.extend(at(&Role::Replica, others));
    let all =
        async || places(&locks.__servers().await.unwrap()) == expected.iter().cloned().collect();
    eventually(DEADLINE, "every server is known", all).await;
    all_answer(&locks.__servers().await.unwrap()).await;
}

#[tokio::test]
async fn the_servers_of_a_set_are_its_sentinels_the_primary_and_the_replicas() {
    let set = SentinelSet::start().await;
    let name = crate::support::sentinel::NAME;
    let locks = patient_at(format!("redis+sentinel://{}/{name}", set.addresses()));
    let locks = locks.build().await.unwrap();
    let _guard = locks.lock(KEY).await.unwrap();
    assert_eq!(listed(&locks, "*").await.unwrap(), [KEY.to_owned()].into());
    let primary = set.primary().await;
    let (mut primaries, mut replicas) = (Vec::new(), Vec::new());
    for (index, node) in set.nodes.iter().enumerate() {
        let of = if index == primary {
            &mut primaries
        } else {
            &mut replicas
        };
        of.push(node.address());
    }
    let sentinels = set.sentinels.iter().map(RedisServer::address);
    let mut expected = at(&Role::Sentinel(name.to_owned()), sentinels);
    expected.extend(at(&Role::Primary, primaries));
    expected.extend(at(&Role::Replica, replicas));
    let all =
        async || places(&locks.__servers().await.unwrap()) == expected.iter().cloned().collect();
    eventually(DEADLINE, "every server is known", all).await;
    all_answer(&locks.__servers().await.unwrap()).await;
}

#[tokio::test]
async fn one_server_stands_for_itself_and_says_what_it_refuses() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    let servers = locks.__servers().await.unwrap();
    assert_eq!(
        places(&servers),
        at(&Role::Primary, [server.address()]).into_iter().collect()
    );
    let refused = servers[0].command(["HGET", "a"]).await.unwrap();
    let Reply::Error(words) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        words.starts_with("ERR wrong number of arguments"),
        "{words}"
    );
    let config = servers[0]
        .command(["CONFIG", "GET", "maxmemory-policy"])
        .await
        .unwrap();
    let expected = ["maxmemory-policy", "noeviction"].map(|word| Reply::Text(word.to_owned()));
    assert_eq!(config, Reply::List(expected.to_vec()));
}
