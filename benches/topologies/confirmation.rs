//! The cost of waiting until two replicas have a lock.

use std::time::Duration;

use super::numbers::{median, spread};
use super::rounds;
use super::sections::{self, Ran};
use crate::support::{DEADLINE, RedisServer, eventually};
use reentry::Locks;

/// The duration of each turn.
const TURN: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Contestant {
    name: &'static str,
    locks: Locks,
    turns: Vec<Ran>,
    waits: u64,
    sections: usize,
}

pub(crate) async fn measure() {
    let primary = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).await;
    let port = primary.port().to_string();
    let options = ["--replicaof", "127.0.0.1", &port];
    let replicas = [
        RedisServer::start_with(&options).await,
        RedisServer::start_with(&options).await,
    ];
    for replica in &replicas {
        eventually(DEADLINE, "the replica is linked", async || {
            replica.is_linked().await
        })
        .await;
    }
    for tasks in [1, 64] {
        compare(&primary, tasks).await;
    }
}

async fn compare(primary: &RedisServer, tasks: usize) {
    let builder = Locks::builder(primary.url());
    let confirmed = builder.clone().confirm(2, Duration::from_secs(1));
    let mut contestants = Vec::new();
    for (name, builder) in [
        ("without (control)", &builder),
        ("without, once more", &builder),
        ("confirm(2, 1 s)", &confirmed),
    ] {
        let locks = builder.clone().build().await.expect("a server");
        sections::run(&locks, tasks, 1, TURN / 2).await;
        contestants.push(Contestant {
            name,
            locks,
            turns: Vec::new(),
            waits: 0,
            sections: 0,
        });
    }
    for _ in 0..rounds(10) {
        fastrand::shuffle(&mut contestants);
        for contestant in &mut contestants {
            let before = waits(primary).await;
            let ran = sections::run(&contestant.locks, tasks, 1, TURN).await;
            contestant.waits += waits(primary).await - before;
            contestant.sections += ran.sections;
            contestant.turns.push(ran);
        }
    }
    contestants.sort_by_key(|it| std::cmp::Reverse(it.name));
    report(tasks, &contestants);
}

fn report(tasks: usize, contestants: &[Contestant]) {
    let rates = |of: &Contestant| of.turns.iter().map(Ran::per_second).collect::<Vec<_>>();
    let latencies = |of: &Contestant| of.turns.iter().map(Ran::median).collect::<Vec<_>>();
    let control = contestants.iter().find(|it| it.name.ends_with("(control)"));
    let control = control.expect("the control");
    println!(
        "\n{tasks} tasks: median (least to greatest) of {} turns",
        control.turns.len()
    );
    println!("| | sections per s | ratio | median of a section, µs | ratio | WAIT per section |");
    println!("|---|---:|---:|---:|---:|---:|");
    for contestant in contestants {
        let (rate, latency) = (rates(contestant), latencies(contestant));
        println!(
            "| {} | {} | {:.2} | {} | {:.2} | {:.3} |",
            contestant.name,
            spread(&rate, 0),
            median(&rate) / median(&rates(control)),
            spread(&latency, 0),
            median(&latency) / median(&latencies(control)),
            contestant.waits as f64 / contestant.sections as f64,
        );
    }
}

async fn waits(server: &RedisServer) -> u64 {
    let calls = server.commandstats().await;
    calls.get("wait").copied().unwrap_or_default()
}
