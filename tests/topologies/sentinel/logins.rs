//! Users, passwords and the number of the database, in the URL and beside it.

use std::time::Duration;

use super::ground::{PATIENCE, built_at, depth, until_replicated, url};
use crate::support::rig::KEY;
use crate::support::sentinel::{Config, NAME};
use crate::support::told::all_of;
use crate::support::{DEADLINE, RedisServer, SentinelSet, eventually, patient_at, within};
use reentry::{LockError, Locks};

async fn protected() -> SentinelSet {
    let config = Config {
        nodes: &["--requirepass", "word"],
        sentinels: &["--requirepass", "man"],
        ..Config::default()
    };
    SentinelSet::start_with(config).await
}

/// The number of keys in this database.
async fn keys_in(node: &RedisServer, database: u8) -> u64 {
    let keyspace = node.ask("INFO keyspace").await;
    let prefix = format!("db{database}:keys=");
    let counts = keyspace.lines().find_map(|line| line.strip_prefix(&prefix));
    let count = counts.and_then(|counts| counts.split(',').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn passwords_and_the_database_hold_over_a_failover() {
    let set = protected().await;
    let addresses = set.addresses();
    let query = "?db=2&sentinel_password=man";
    let by_url = patient_at(format!("redis+sentinel://:word@{addresses}/{NAME}{query}"));
    let by_url = by_url.build().await.unwrap();
    let by_login = built_at(url(&set) + query).login("default", "word");
    let by_login = by_login.build().await.unwrap();

    let guard = by_url.lock(KEY).await.unwrap();
    // These are the lock, and the description of the process.
    let both = async || keys_in(&set.nodes[0], 2).await == 2;
    eventually(DEADLINE, "the lock is in its database", both).await;
    assert_eq!(keys_in(&set.nodes[0], 0).await, 0);
    assert!(by_login.lock(KEY).try_acquire().await.unwrap().is_none());
    until_replicated(&set, 0).await;
    let new = set.failover().await;
    let primary = &set.nodes[new];
    for locks in [&by_url, &by_login] {
        // Locks that the old primary grants in the meantime are lost. A request in flight may leave a tombstone.
        let there = async || {
            let before = keys_in(primary, 2).await;
            let entered = locks.with_lock("other", keys_in(primary, 2)).await;
            entered.is_ok_and(|inside| inside > before)
        };
        eventually(PATIENCE, "they are in the new primary", there).await;
    }
    assert!(by_login.lock(KEY).try_acquire().await.unwrap().is_none());
    assert!(!guard.held().is_lost());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn users_of_the_servers_and_of_the_sentinels_differ() {
    let set = SentinelSet::start().await;
    for node in &set.nodes {
        let rules = "on >word ~* &* +@all -role -info -config";
        node.ask(&format!("ACL SETUSER app {rules}")).await;
    }
    for sentinel in &set.sentinels {
        let subcommands = ["master", "sentinels", "get-master-addr-by-name"];
        let rules = subcommands.map(|it| format!("+sentinel|{it}")).join(" ");
        sentinel
            .ask(&format!("ACL SETUSER watch on >man {rules}"))
            .await;
        sentinel.ask("ACL SETUSER default -sentinel").await;
    }
    let url = url(&set) + "?sentinel_username=watch&sentinel_password=man";
    let locks = built_at(url).login("app", "word").build().await.unwrap();
    let entered = locks.with_lock(KEY, async { depth(&set.nodes[0], KEY).await });
    assert_eq!(entered.await.unwrap(), 1);
    set.nodes[0].until_listening(1).await;
    let clients = set.nodes[0].ask("CLIENT LIST TYPE pubsub").await;
    assert!(clients.contains("user=app"), "{clients}");
}

/// No further attempt is made, and no password is shown.
#[tokio::test]
async fn logins_that_are_refused_are_an_error_at_once() {
    let set = protected().await;
    let with = |query: &str| built_at(url(&set) + query);
    let right = || with("?sentinel_password=man");
    for (wrong, said) in [
        (
            with("?sentinel_password=hush").login("default", "word"),
            "authentication",
        ),
        (with("").login("default", "word"), "NOAUTH"),
        (right().login("default", "hush"), "authentication"),
        (right().login("hush", "word"), "authentication"),
        (right(), "NOAUTH"),
    ] {
        let builder = wrong.wait(Duration::MAX);
        assert!(!format!("{builder:?}").contains("man"), "{builder:?}");
        let locks: Locks = builder.clone().build_lazy().unwrap();
        let acquiring = within(DEADLINE, "an answer", locks.lock(KEY).acquire());
        for error in [builder.build().await.map(drop), acquiring.await.map(drop)] {
            let error = error.unwrap_err();
            assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
            let told = all_of(&error);
            assert!(told.contains(said), "{said}: {told}");
            for word in ["hush", "word\"", "man\""] {
                assert!(!told.contains(word), "{told}");
            }
        }
    }
}
