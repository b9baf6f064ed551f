//! How many holds can one process renew, and what do lost connections cost it?
//!
//! `HOLDS=300000 TTL=9 CUTS=3 SECONDS=40 cargo bench --package reentry-tests --bench renewals`. Each second it prints
//! how many scripts the server has run, how many renewals they contained, how much of a core this process has used, the
//! 99th percentile and the longest of the pairs that another task makes meanwhile, and how many locks are lost. The first connection is cut after five seconds, the next ones every five seconds.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench stops at the first error"
)]

#[path = "topologies/cpu.rs"]
#[allow(dead_code, reason = "it uses a part of it")]
mod cpu;
#[path = "../tests/support/mod.rs"]
mod support;

use std::env;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reentry::Locks;
use support::RedisServer;
use tokio::time::{Instant, sleep_until};

fn number(name: &str, default: u64) -> u64 {
    let set = env::var(name).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() {
    let (holds, ttl) = (number("HOLDS", 300_000), number("TTL", 9));
    let (cuts, seconds) = (number("CUTS", 3), number("SECONDS", 40));
    let server = RedisServer::start().await;
    let locks = Locks::builder(server.url()).ttl(Duration::from_secs(ttl));
    let locks = locks.build().await.unwrap();
    let begun = Instant::now();
    let guards = stream::iter(0..holds).map(|number| locks.lock(number.to_string()).acquire());
    let guards: Vec<_> = guards.buffer_unordered(500).collect().await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    println!("{holds} holds at {ttl} s, taken in {:?}", begun.elapsed());
    println!(
        "| second | connections cut | scripts | renewals | CPU of this process, cores | CPU of the server | p99 of a pair | longest | lost |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let pairs = Arc::<Mutex<Vec<Duration>>>::default();
    tokio::spawn(pair_after_pair(locks.clone(), Arc::clone(&pairs)));
    let begun = Instant::now();
    let (mut cut, mut before) = (0, Sample::take(&server).await);
    let first = before;
    for second in 1..=seconds {
        if second % 5 == 0 && cut < cuts {
            // The connection for commands is subscribed to forced releases.
            server.ask("CLIENT KILL TYPE pubsub").await;
            cut += 1;
        }
        sleep_until(begun + Duration::from_secs(second)).await;
        let now = Sample::take(&server).await;
        let lost = guards.iter().filter(|guard| guard.held().is_lost()).count();
        let Rates {
            scripts,
            renewals,
            own,
            of_server,
        } = now.since(before);
        let mut times = std::mem::take(&mut *pairs.lock().unwrap());
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).or(times.last());
        let (p99, longest) = (at(99).unwrap(), times.last().unwrap());
        println!(
            "| {second} | {cut} | {scripts:.0} | {renewals:.0} | {own:.2} | {of_server:.2} | {p99:.1?} | {longest:.1?} | {lost} |"
        );
        before = now;
    }
    let Rates {
        scripts,
        renewals,
        own,
        of_server,
    } = before.since(first);
    println!(
        "all: {scripts:.0} scripts and {renewals:.0} renewals a second, {own:.2} and {of_server:.2} cores; {:.2} µs of this \
         process for a renewal, {:.1} renewals in a script",
        own * 1e6 / renewals,
        renewals / scripts,
    );
    // Their releases would take as long as the rest of the run.
    std::process::exit(0);
}

/// Acquires and releases a free lock, 500 times in a second.
async fn pair_after_pair(locks: Locks, pairs: Arc<Mutex<Vec<Duration>>>) {
    loop {
        let begun = Instant::now();
        locks.with_lock("pair", async {}).await.unwrap();
        pairs.lock().unwrap().push(begun.elapsed());
        sleep_until(begun + Duration::from_millis(2)).await;
    }
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    scripts: u64,
    renewals: u64,
    own: f64,
    of_server: f64,
}

/// The numbers of one second.
struct Rates {
    scripts: f64,
    renewals: f64,
    /// The CPU usage, in cores.
    own: f64,
    of_server: f64,
}

impl Sample {
    async fn take(server: &RedisServer) -> Self {
        let stats = server.commandstats().await;
        let calls = |name| stats.get(name).copied().unwrap_or_default();
        Self {
            at: Instant::now(),
            scripts: calls("evalsha"),
            // A script of renewals reads once for each hold. An acquire of a free lock does not read.
            renewals: calls("hexists"),
            own: cpu::own(),
            of_server: cpu::of(std::slice::from_ref(server)).await,
        }
    }

    fn since(self, before: Self) -> Rates {
        let micros = (self.at - before.at).as_micros() as f64;
        let a_second = |now: u64, before: u64| (now - before) as f64 * 1e6 / micros;
        Rates {
            scripts: a_second(self.scripts, before.scripts),
            renewals: a_second(self.renewals, before.renewals),
            own: (self.own - before.own) / micros,
            of_server: (self.of_server - before.of_server) / micros,
        }
    }
}
