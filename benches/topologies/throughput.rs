//! Sections per second on three primaries against one server, and what a machine with more cores would do.

use std::time::Duration;

use super::model::{Costs, compute};
use super::numbers::{median, spread};
use super::{cpu, rounds, sections};
use crate::support::{Cluster, RedisServer};
use reentry::Locks;

/// The duration of each turn.
const TURN: Duration = Duration::from_secs(1);

const TASKS: usize = 64;

/// The number of keys of each task.
const KEYS: usize = 16;

#[derive(Debug)]
struct Contestant<'a> {
    name: &'static str,
    locks: Locks,
    servers: &'a [RedisServer],
    rates: Vec<f64>,
    /// CPU time in µs per section: of this process, of the servers, and inside scripts.
    client: Vec<f64>,
    server: Vec<f64>,
    inside: Vec<f64>,
}

pub(crate) async fn measure() {
    let one = [RedisServer::start().await];
    let cluster = Cluster::start().await;
    // Otherwise they would use a part of two cores.
    cluster.nodes[3..].iter().for_each(RedisServer::stop);
    let primaries = &cluster.nodes[..3];
    let addresses: Vec<_> = primaries.iter().map(RedisServer::address).collect();
    let many = Locks::builder(format!("redis+cluster://{}", addresses.join(",")));
    let connect = async || Locks::connect(one[0].url()).await.expect("a server");
    let contestant = |name, locks, servers| Contestant {
        name,
        locks,
        servers,
        rates: Vec::new(),
        client: Vec::new(),
        server: Vec::new(),
        inside: Vec::new(),
    };
    let mut contestants = [
        contestant("one server (control)", connect().await, &one[..]),
        contestant("one server, once more", connect().await, &one[..]),
        contestant(
            "three primaries",
            many.build().await.expect("a cluster"),
            primaries,
        ),
    ];
    for contestant in &contestants {
        sections::run(&contestant.locks, TASKS, KEYS, TURN).await;
    }
    let mut order = [0, 1, 2];
    for _ in 0..rounds(10) {
        fastrand::shuffle(&mut order);
        for place in order {
            contestants[place].turn().await;
        }
    }
    report(&contestants);
}

impl Contestant<'_> {
    async fn turn(&mut self) {
        let (server, inside) = (cpu::of(self.servers).await, cpu::inside(self.servers).await);
        let client = cpu::own();
        let ran = sections::run(&self.locks, TASKS, KEYS, TURN).await;
        let per_section = |cost: f64| cost / ran.sections as f64;
        self.client.push(per_section(cpu::own() - client));
        self.server
            .push(per_section(cpu::of(self.servers).await - server));
        self.inside
            .push(per_section(cpu::inside(self.servers).await - inside));
        self.rates.push(ran.per_second());
    }

    fn costs(&self) -> Costs {
        Costs {
            client: median(&self.client),
            server: median(&self.server),
        }
    }
}

fn report(contestants: &[Contestant<'_>; 3]) {
    let [control, _, many] = contestants;
    println!(
        "{TASKS} tasks: median (least to greatest) of {} turns",
        control.rates.len()
    );
    println!(
        "| | sections per s | ratio | CPU of the client, µs per section | CPU of the servers, µs per section | of it in scripts |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for contestant in contestants {
        println!(
            "| {} | {} | {:.2} | {} | {} | {} |",
            contestant.name,
            spread(&contestant.rates, 0),
            median(&contestant.rates) / median(&control.rates),
            spread(&contestant.client, 1),
            spread(&contestant.server, 1),
            spread(&contestant.inside, 1),
        );
    }
    println!(
        "\ncomputed from these CPU times, with a core for each process that does what has come to it at once: sections per s"
    );
    println!("| client processes, {TASKS} tasks each | one server | three primaries | ratio |");
    println!("|---:|---:|---:|---:|");
    for clients in [1, 2, 3, 4, 6, 8] {
        let one = compute(control.costs(), 1, clients, TASKS);
        let three = compute(many.costs(), 3, clients, TASKS);
        println!("| {clients} | {one:.0} | {three:.0} | {:.2} |", three / one);
    }
}
