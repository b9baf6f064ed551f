//! Locks beside other data, on many servers, and of users with few permissions.

use std::collections::BTreeSet;

use reentry::Locks;
use serde_json::Value;

use super::doctor::rights;
use super::kit::{hold, lines, process, run};
use crate::program::Ended;
use crate::support::wait::DEADLINE;
use crate::support::{Cluster, RedisServer};

/// A holder of another program, which writes as the classic scripts do.
const HOLD: &str = "8b1c1a3e-0000-4000-8000-000000000000:17";

/// The keys of the locks in a list.
fn keys(ended: &Ended) -> BTreeSet<String> {
    let keys = lines(ended).into_iter();
    keys.map(|lock| lock["key"].as_str().unwrap().to_owned())
        .collect()
}

fn texts(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn listed(server: &RedisServer) -> Vec<Value> {
    let listed = run(&server.url(), &["ls", "--json"]).await;
    assert_eq!((listed.code, &*listed.err), (Some(0), ""));
    lines(&listed)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_other_programs_is_not_listed_and_stops_no_scan() {
    let server = RedisServer::start().await;
    let _guard = hold(&process(&server).await, "order").await;
    let many: String = (0..=64)
        .map(|number| format!(" {HOLD}{number} 1"))
        .collect();
    for made in [
        "SET text 1",
        "HSET no:1 name Ann",
        "HSET no:2 mode '1790000000 0'",
        &format!("HSET no:3 {HOLD} '{{\"json\": 1}}'"),
        &format!("HSET no:4 {HOLD} 1.5"),
        &format!("HSET no:5 {HOLD} ''"),
        "HSET no:6 4f0e1d2c:1 1",
        "HSET no:7 4f0e1d2c-0000-4000-8000-000000000000 1",
        // Only readers can be so many.
        &format!("HSET no:8{many}"),
        // Together with a field of another kind it is a holder.
        &format!("HSET stock name Ann {HOLD} 2"),
        // The values beside the lock have other types.
        "SET reentry:queue:{stock}:stock 1",
        "SET reentry:entries:{stock}:stock 1",
    ] {
        server.ask(made).await;
    }
    let locks = listed(&server).await;
    let [stock] = &locks
        .iter()
        .filter(|it| it["key"] == "stock")
        .collect::<Vec<_>>()[..]
    else {
        panic!("{locks:?}")
    };
    assert_eq!(locks.len(), 2, "{locks:?}");
    assert_eq!(
        (&stock["holder_count"], &stock["waiting_processes"]),
        (&1.into(), &0.into())
    );
    assert_eq!(
        (&stock["holders"][0]["depth"], &stock["token"]),
        (&2.into(), &Value::Null)
    );
    let shown = run(&server.url(), &["show", "stock", "--json"]).await;
    assert_eq!(
        (shown.code, &lines(&shown)[0]["places"]),
        (Some(0), &0.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_hash_is_not_read() {
    let server = RedisServer::start().await;
    server.ask("HSET small name Ann").await;
    let fill = "for i = 1, 100000 do redis.call('HSET', KEYS[1], i, i) end";
    server.ask(&format!("EVAL \"{fill}\" 1 big")).await;
    server.ask("CONFIG RESETSTAT").await;
    assert!(listed(&server).await.is_empty());
    let stats = server.ask("INFO commandstats").await;
    assert!(stats.contains("cmdstat_hkeys:calls=1,"), "{stats}");
    for reading in ["hgetall", "hscan", "hmget", "evalsha", "hvals"] {
        assert!(!stats.contains(&format!("cmdstat_{reading}:")), "{stats}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_many_readers_is_cut_and_their_count_is_not() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let mut readers = Vec::new();
    for _ in 0..70 {
        readers.push(locks.lock("report").read().await.unwrap());
    }
    let [report] = &listed(&server).await[..] else {
        panic!("one lock")
    };
    assert_eq!(
        (&report["mode"], &report["holder_count"]),
        (&"shared".into(), &70.into())
    );
    assert_eq!(report["holders"].as_array().unwrap().len(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_shown_in_its_order_with_dead_processes_marked() {
    let server = RedisServer::start().await;
    let _guard = hold(&process(&server).await, "order").await;
    let inbox = |number: u32| format!("reentry:inbox:0a1b2c3d-4e5f-4000-8000-{number:012}");
    let [line, entries] = ["queue", "entries"].map(|it| format!("reentry:{it}:{{order}}:order"));
    for (number, entry) in [
        (1, format!("1 {HOLD} 30000")),
        (2, format!("4000000000000000 {HOLD} 30000")),
        (3, format!("4000000000000000 {HOLD},{HOLD}8 30000 r")),
    ] {
        server
            .ask(&format!("HSET {entries} {} '{entry}'", inbox(number)))
            .await;
    }
    for number in 1..=60 {
        server
            .ask(&format!("ZADD {line} {number} {}", inbox(number)))
            .await;
    }
    // A process is known by a record of its own.
    server
        .ask("SET reentry:process:0a1b2c3d4e5f \"orders\\nworker-3\\n4711\\n0.1.0\\n1790000000\"")
        .await;
    let shown = run(&server.url(), &["show", "order", "--json", "-n", "55"]).await;
    let shown = &lines(&shown)[0];
    let queue = shown["queue"].as_array().unwrap();
    assert_eq!((queue.len(), &shown["places"]), (55, &60.into()));
    let part = |part: &str| -> Vec<_> { queue[..4].iter().map(|it| it[part].clone()).collect() };
    assert_eq!(part("alive"), [false, true, true, false]);
    assert_eq!(
        part("mode"),
        ["exclusive", "exclusive", "shared", "exclusive"]
    );
    assert_eq!(queue[2]["hold_ids"].as_array().unwrap().len(), 2);
    assert_eq!(
        queue[54]["id"],
        inbox(55).strip_prefix("reentry:inbox:").unwrap()
    );
    assert_eq!(queue[54]["process"]["pid"], 4711);
    // Those that are alive are counted.
    assert_eq!(listed(&server).await[0]["waiting_processes"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_the_user_may_not_touch_are_left_out() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let _guards = [hold(&locks, "app:order").await, hold(&locks, "stock").await];
    // Without the last permission, the progress is unknown.
    let rights = rights();
    server
        .ask(&format!("ACL SETUSER locker {rights} -dbsize"))
        .await;
    let url = format!("redis://locker:password@{}", server.address());
    let listed = run(&url, &["ls", "--json"]).await;
    assert_eq!((listed.code, &*listed.err), (Some(0), ""));
    assert_eq!(keys(&listed), texts(&["app:order"]));
    // A key that is given by its name is rejected.
    assert_eq!(run(&url, &["show", "stock"]).await.code, Some(125));
    for missing in ["-scan", "-hkeys", "-zcount"] {
        server
            .ask(&format!("ACL SETUSER locker {rights} {missing}"))
            .await;
        let refused = run(&url, &["ls"]).await;
        assert_eq!(refused.code, Some(125), "{missing}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_every_primary_of_a_cluster_are_listed() {
    let cluster = Cluster::start().await;
    let url = format!("redis+cluster://{}", cluster.seeds());
    let builder = Locks::builder(&url).connect_timeout(DEADLINE);
    let locks = builder.response_timeout(DEADLINE).build().await.unwrap();
    let names: Vec<_> = (0..30).map(|number| format!("order:{number}")).collect();
    let (mut guards, mut owners) = (Vec::new(), BTreeSet::new());
    for name in &names {
        guards.push(hold(&locks, name).await);
        owners.insert(cluster.owner_of(name).await);
    }
    assert_eq!(owners.len(), 3);
    let listed = run(&url, &["ls", "--json"]).await;
    assert_eq!(lines(&listed).len(), names.len());
    assert_eq!(keys(&listed), names.iter().cloned().collect());
    for name in &names[..6] {
        let shown = run(&url, &["show", name]).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
    }
}
