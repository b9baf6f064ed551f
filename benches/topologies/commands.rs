//! The number of commands of a section, as the servers count them. The servers do not count redirected calls.

use std::collections::BTreeMap;

use super::rounds;
use crate::support::stats::Calls;
use crate::support::{Cluster, RedisServer};
use reentry::Locks;

/// The commands that a client of the crate may send, or that a script does not call.
const SENT: [&str; 9] = [
    "asking",
    "eval",
    "evalsha",
    "publish",
    "script|load",
    "subscribe",
    "set",
    "wait",
    "cluster|slots",
];

/// The number of keys, which is enough for many slots.
const KEYS: usize = 300;

pub(crate) async fn measure() {
    let server = RedisServer::start().await;
    let cluster = Cluster::start().await;
    let one = Locks::connect(server.url()).await.expect("a server");
    let many = Locks::connect(format!("redis+cluster://{}", cluster.seeds()));
    let many = many.await.expect("a cluster");
    let sections = rounds(30) * KEYS;
    let (servers, primaries) = ([server], &cluster.nodes[..3]);
    println!("| | commands per section | called by scripts, per section |");
    println!("|---|---|---|");
    for (name, locks, servers) in [
        ("one server", &one, &servers[..]),
        ("three primaries", &many, primaries),
    ] {
        all_keys(locks).await;
        let before = sum(servers).await;
        for _ in 0..rounds(30) {
            all_keys(locks).await;
        }
        let after = sum(servers).await;
        let (mut sent, mut called) = (Vec::new(), Vec::new());
        for (command, count) in crate::support::stats::difference(&before, &after) {
            let count = count as f64 / sections as f64;
            let is_sent = SENT.contains(&&*command);
            let line = format!("{command} {count:.3}");
            if is_sent { &mut sent } else { &mut called }.push(line);
        }
        println!("| {name} | {} | {} |", sent.join(", "), called.join(", "));
    }
}

async fn all_keys(locks: &Locks) {
    for key in 0..KEYS {
        let section = locks.with_lock(format!("order:{key}"), async {});
        section.await.expect("a free lock");
    }
}

async fn sum(servers: &[RedisServer]) -> Calls {
    let mut sum = BTreeMap::new();
    for server in servers {
        for (command, count) in server.commandstats().await {
            *sum.entry(command).or_default() += count;
        }
    }
    sum
}
