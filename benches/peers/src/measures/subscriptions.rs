//! How many subscriptions do the waiters of many keys need?
//!
//! Every key is held, and each of four processes waits for all of them. Pollers have no subscriptions, and BLPOP needs
//! a connection for each waiter instead. So these do not take part.

use anyhow::Result;

use crate::bench::Bench;
use crate::crew::crew;
use crate::kind::Kind;
use crate::worker::Job;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keys that are held
    #[arg(long, default_value_t = 1_000)]
    pub(crate) keys: usize,
    /// Processes that wait for all of them
    #[arg(long, default_value_t = 4)]
    pub(crate) processes: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let mut report = bench.report("subscriptions");
    for kind in bench.choose(Kind::subscribes, Kind::RedissonProtocol) {
        let holder = kind.connect(&bench.server.url()).await?;
        let key = |n| format!("subscriptions:{}:{n}", kind.name());
        let keys: Vec<String> = (0..args.keys).map(key).collect();
        let mut held = Vec::new();
        for key in &keys {
            held.push(holder.acquire(key).await?);
        }
        let before = clients(bench).await?;
        let job = Job::Queue { keys };
        let mut workers = crew(&bench.server.url(), kind, &job, args.processes).await?;
        for worker in &mut workers {
            worker.tell("go").await?;
        }
        for worker in &mut workers {
            worker.hear::<()>().await?;
        }
        let after = clients(bench).await?;
        let channels: Vec<String> = bench.server.ask(&["PUBSUB", "CHANNELS"]).await?;
        let processes = args.processes as f64;
        let values = [
            (
                "subscriptions",
                "per process",
                (after.subscriptions - before.subscriptions) / processes,
            ),
            ("channels", "in all", channels.len() as f64),
            (
                "connections",
                "per process",
                (after.connections - before.connections) / processes,
            ),
        ];
        let setting = format!("{} keys x {}", args.keys, args.processes);
        report.add(&setting, &kind.name(), &values);
        // The waiters end first, so that none of them is woken by a thousand releases.
        drop(workers);
        for hold in held {
            hold.release().await?;
        }
    }
    report.print();
    Ok(())
}

/// The server's information about its clients.
struct Clients {
    connections: f64,
    subscriptions: f64,
}

async fn clients(bench: &Bench) -> Result<Clients> {
    let list: String = bench.server.ask(&["CLIENT", "LIST"]).await?;
    let figure = |line: &str, name: &str| {
        let text = line.split(' ').find_map(|field| field.strip_prefix(name));
        text.and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    let of_line = |line: &str| ["sub=", "psub=", "ssub="].map(|name| figure(line, name));
    Ok(Clients {
        connections: list.lines().count() as f64,
        subscriptions: list.lines().flat_map(of_line).sum(),
    })
}
