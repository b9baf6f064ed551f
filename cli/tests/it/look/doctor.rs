//! `reentry doctor`.

use std::collections::BTreeSet;

use reentry::Locks;
use serde_json::Value;

use super::kit::{hold, lines, process, run};
use crate::support::sentinel::NAME;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::{Cluster, RedisServer, SentinelSet};

/// The report as JSON, and the exit code.
async fn report(url: &str, words: &[&str]) -> (Option<i32>, Value) {
    let words: Vec<_> = ["doctor", "--json"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let ended = run(url, &words).await;
    let report = lines(&ended).pop();
    (ended.code, report.unwrap_or_else(|| panic!("{ended:?}")))
}

/// The findings of a check.
fn findings<'r>(report: &'r Value, check: &str) -> impl Iterator<Item = &'r Value> {
    let sections = report["sections"].as_array().unwrap().iter();
    let findings = sections.flat_map(|it| it["findings"].as_array().unwrap());
    findings.filter(move |it| it["check"] == check)
}

/// The levels of the findings of a check.
fn levels<'r>(report: &'r Value, check: &str) -> Vec<&'r str> {
    let findings = findings(report, check);
    findings.map(|it| it["level"].as_str().unwrap()).collect()
}

/// The roles of the servers, and their addresses.
fn places(report: &Value) -> BTreeSet<(String, String)> {
    let sections = report["sections"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().map(str::to_owned);
    let places = sections.filter_map(|it| Some((text(&it["role"])?, text(&it["at"])?)));
    places.collect()
}

/// The command `reentry doctor` for servers in these roles.
fn in_roles<'s>(
    servers: impl IntoIterator<Item = (&'s str, &'s RedisServer)>,
) -> BTreeSet<(String, String)> {
    let servers = servers.into_iter();
    let places = servers.map(|(role, server)| (role.to_owned(), server.address()));
    places.collect()
}

/// The texts of the findings of a check, and their advice.
fn told(report: &Value, check: &str) -> String {
    findings(report, check)
        .map(|it| format!("{} {}\n", it["what"], it["advice"]))
        .collect()
}

/// The permissions of `docs/operations.md`, and the permissions for lists.
pub(super) fn rights() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rules = page
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER locker"));
    format!("{}{LISTS}", rules.unwrap())
}

/// The permissions for lists.
const LISTS: &str = " +scan +hkeys +zcount +dbsize";

#[tokio::test(flavor = "multi_thread")]
async fn doctor_warns_of_a_server_without_persistence() {
    let server = RedisServer::start().await;
    let (code, report) = report(&server.url(), &[]).await;
    assert_eq!(
        (code, &report["worst"]),
        (Some(0), &"warn".into()),
        "{report:#}"
    );
    assert_eq!(levels(&report, "persistence"), ["warn"]);
    for check in ["version", "memory", "replication", "clock"] {
        assert_eq!(levels(&report, check), ["ok"], "{check}: {report:#}");
    }
    assert_eq!(levels(&report, "locks"), ["ok"], "{report:#}");
    assert_eq!(levels(&report, "user"), ["ok"; 5], "{report:#}");
    assert_eq!(server.leftovers().await, [""; 0]);
    let strict = run(&server.url(), &["doctor", "--strict"]).await;
    assert_eq!(strict.code, Some(1));
    assert!(strict.out.contains("persistence"), "{strict:?}");
    assert!(
        !strict.out.contains('\u{1b}'),
        "no colours without a terminal: {strict:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_rejects_a_server_that_evicts_locks() {
    let server = RedisServer::start().await;
    server.ask("CONFIG SET maxmemory-policy volatile-lru").await;
    assert_eq!(
        levels(&report(&server.url(), &[]).await.1, "memory"),
        ["warn"]
    );
    server.ask("CONFIG SET maxmemory 1gb").await;
    let (code, report) = report(&server.url(), &[]).await;
    assert_eq!((code, levels(&report, "memory")), (Some(1), vec!["fail"]));
    assert!(told(&report, "memory").contains("noeviction"), "{report:#}");
}

/// A server, or a proxy in front of it, may report something else than what it does.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_rejects_a_server_on_which_no_lock_can_be_acquired() {
    let without = RedisServer::start_with(&["--rename-command", "EVALSHA", ""]).await;
    let full = RedisServer::start().await;
    full.ask("CONFIG SET maxmemory 100kb").await;
    for (server, said) in [(without, "unknown command"), (full, "OOM")] {
        let (code, report) = report(&server.url(), &[]).await;
        assert_eq!(
            (code, levels(&report, "locks")),
            (Some(1), vec!["fail"]),
            "{report:#}"
        );
        assert!(told(&report, "locks").contains(said), "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_the_missing_permissions_as_acl_rules() {
    let server = RedisServer::start().await;
    let rights = rights();
    let commands = rights.split_once("inbox:* ").unwrap().1;
    let commands = commands.strip_suffix(LISTS).unwrap();
    let url = format!("redis://locker:password@{}", server.address());
    for (missing, level, right) in [
        ("", "warn", "+wait"),
        ("-get", "warn", "+get"),
        ("-hset", "fail", "+hset"),
        ("-time", "fail", "+time"),
        ("-evalsha", "fail", "+evalsha"),
        ("-hkeys", "warn", "+hkeys"),
        ("-scan", "warn", "+scan"),
        ("-zcount", "warn", "+zcount"),
        ("-publish", "warn", "+publish"),
        ("-ping", "warn", "+ping"),
        ("-subscribe", "warn", "+subscribe"),
        ("resetchannels", "warn", "&reentry:inbox:*"),
        (
            "resetkeys ~app:* ~reentry:queue:* ~reentry:entries:*",
            "warn",
            "~reentry:waits:*",
        ),
        ("resetkeys ~reentry:*", "warn", "--key"),
        ("resetkeys ~app:*", "fail", "~reentry:queue:*"),
    ] {
        server.ask("ACL DELUSER locker").await;
        server
            .ask(&format!("ACL SETUSER locker {rights} {missing}"))
            .await;
        let (code, report) = report(&url, &["--prefix", "app:"]).await;
        let said = told(&report, "locks") + &told(&report, "user");
        assert!(said.contains(right), "{missing}: {said}");
        // Not every version tells a script which command is forbidden.
        let is_named = level != "fail" || !said.contains("can't run this command");
        assert!(is_named || said.contains(commands), "{missing}: {said}");
        assert_eq!(code == Some(1), level == "fail", "{missing}: {said}");
        assert_eq!(report["worst"], level, "{missing}: {said}");
        assert!(!report.to_string().contains("password"), "{report}");
    }
    assert_eq!(server.leftovers().await, [""; 0]);
}

/// The user's key and its additional keys: the advice must not grant more.
const OWN_KEYS: &str = "~order:* ~reentry:queue:{order:* ~reentry:entries:{order:*";

#[tokio::test(flavor = "multi_thread")]
async fn doctor_asks_a_user_with_a_prefix_for_one_of_its_keys() {
    let server = RedisServer::start().await;
    let url = format!("redis://locker:password@{}", server.address());
    server
        .ask(&format!(
            "ACL SETUSER locker {} resetkeys {OWN_KEYS}",
            rights()
        ))
        .await;
    // Its locks are unknown, so this is only a warning.
    let (code, unnamed) = report(&url, &[]).await;
    let said = told(&unnamed, "locks");
    assert_eq!(
        (code, levels(&unnamed, "locks")),
        (Some(0), vec!["warn"]),
        "{said}"
    );
    assert!(said.contains("--key") && !said.contains("~*"), "{said}");

    let (code, own) = report(&url, &["--key", "order:42"]).await;
    assert_eq!(
        (code, levels(&own, "locks")),
        (Some(0), vec!["ok"]),
        "{own:#}"
    );

    let (code, other) = report(&url, &["--key", "stock:7"]).await;
    let said = told(&other, "locks");
    assert_eq!(
        (code, levels(&other, "locks")),
        (Some(1), vec!["fail"]),
        "{said}"
    );
    assert!(said.contains("stock:7") && !said.contains("~*"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_does_not_try_a_lock_that_is_held() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "app:order:42").await;
    let words = ["--prefix", "app:", "--key", "order:42"];
    let (code, held) = report(&server.url(), &words).await;
    assert_eq!(
        (code, levels(&held, "locks")),
        (Some(0), vec!["warn"]),
        "{held:#}"
    );
    assert!(told(&held, "locks").contains("is held"), "{held:#}");
    assert!(!guard.held().is_lost());
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_rejects_a_replica_in_the_place_of_a_primary() {
    let primary = RedisServer::start().await;
    let replica = RedisServer::start().await;
    replica
        .ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()))
        .await;
    let linked = async || {
        let (_, report) = report(&primary.url(), &[]).await;
        levels(&report, "replication") == ["warn", "ok"]
    };
    eventually(DEADLINE, "both are seen from the primary", linked).await;
    let (_, seen) = report(&primary.url(), &[]).await;
    assert!(
        told(&seen, "replication").contains("min-replicas-to-write 1"),
        "{seen:#}"
    );
    assert_eq!(levels(&seen, "clocks"), ["ok"]);
    primary.ask("CONFIG SET min-replicas-to-write 2").await;
    let (code, seen) = report(&primary.url(), &[]).await;
    assert_eq!((code, levels(&seen, "locks")), (Some(1), vec!["fail"]));
    assert!(told(&seen, "locks").contains("NOREPLICAS"), "{seen:#}");
    let (code, seen) = report(&replica.url(), &[]).await;
    assert_eq!(code, Some(1), "{seen:#}");
    assert_eq!(
        seen["sections"][0]["findings"]
            .as_array()
            .map(|_| levels(&seen, "locks")[0]),
        Some("fail")
    );
    assert!(
        told(&seen, "locks").contains("name the primary"),
        "{seen:#}"
    );
    // Its primary is listed, too.
    let sections = seen["sections"].as_array().unwrap();
    let at: Vec<_> = sections.iter().map(|it| it["at"].clone()).collect();
    assert_eq!(at[..2], [replica.address(), primary.address()], "{seen:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reads_the_quorum_and_the_timeouts_of_sentinels() {
    let set = SentinelSet::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", set.addresses());
    let whole = async || {
        let (_, report) = report(&url, &[]).await;
        levels(&report, "sentinels") == ["ok"] && levels(&report, "failover") == ["ok"]
    };
    eventually(DEADLINE, "all are well", whole).await;
    let (_, short) = report(&url, &["--ttl", "3s"]).await;
    assert_eq!(levels(&short, "failover"), ["warn"], "{short:#}");
    assert!(
        told(&short, "failover").contains("down-after-milliseconds"),
        "{short:#}"
    );
    assert_eq!(levels(&short, "clocks"), ["ok"]);
    let primary = set.primary().await;
    let role = |index| {
        if index == primary {
            "primary"
        } else {
            "replica"
        }
    };
    let nodes = set.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, node)| (role(index), node));
    let sentinels = set.sentinels.iter().map(|it| ("sentinel", it));
    assert_eq!(places(&short), in_roles(nodes.chain(sentinels)));

    for sentinel in &set.sentinels[1..] {
        sentinel.stop();
    }
    let alone = async || levels(&report(&url, &[]).await.1, "sentinels").contains(&"fail");
    eventually(DEADLINE * 2, "there is no quorum", alone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reads_the_slots_and_replicas_of_a_cluster() {
    let cluster = Cluster::start().await;
    let url = format!("redis+cluster://{}", cluster.seeds());
    let whole = async || levels(&report(&url, &[]).await.1, "cluster") == ["ok"];
    eventually(DEADLINE, "all slots are covered", whole).await;
    let (_, seen) = report(&url, &["--ttl", "3s"]).await;
    assert_eq!(levels(&seen, "failover"), ["warn"], "{seen:#}");
    assert_eq!(levels(&seen, "version").len(), 6);
    let mut replicas = Vec::new();
    for primary in 0..3 {
        replicas.push(cluster.replica_of(primary).await);
    }
    let role = |index| {
        if replicas.contains(&index) {
            "replica"
        } else {
            "primary"
        }
    };
    let nodes = cluster.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, node)| (role(index), node));
    assert_eq!(places(&seen), in_roles(nodes));
    // At each primary.
    assert_eq!(levels(&seen, "locks"), ["ok"; 3], "{seen:#}");
    // A single server has a third of the locks, and one of those can be acquired.
    let (code, alone) = report(&cluster.nodes[0].url(), &[]).await;
    assert_eq!(
        (code, levels(&alone, "address")),
        (Some(1), vec!["fail"]),
        "{alone:#}"
    );
    assert!(
        told(&alone, "address").contains("redis+cluster://"),
        "{alone:#}"
    );

    let replica = cluster.replica_of(0).await;
    cluster.nodes[replica].stop();
    cluster.nodes[0].stop();
    let down = async || levels(&report(&url, &[]).await.1, "cluster").contains(&"fail");
    eventually(DEADLINE * 2, "it is down", down).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_a_full_server_from_one_that_is_down() {
    let server = RedisServer::start_with(&["--maxclients", "1"]).await;
    let locks = Locks::builder(server.url()).build().await.unwrap();
    for (url, words) in [
        (server.url(), &["doctor"][..]),
        (format!("{}/3", server.url()), &["doctor"]),
        (server.url(), &["ls"]),
    ] {
        let ended = run(&url, words).await;
        assert_eq!(ended.code, Some(122), "{ended:?}");
        assert!(ended.err.contains("maxclients"), "{words:?}: {ended:?}");
    }
    drop(locks);
}
