//! The costs of sentinels and clusters, and how long their faults delay the next holder of a lock.
//!
//! `cargo bench --package reentry-tests --bench topologies -- PART`, where the part is one of
//!
//! | part | question |
//! |---|---|
//! | `gaps [FAULT]` | how long can no caller acquire a lock around each fault? `ROUNDS` sets the number of rounds, 10 by default |
//! | `router` | what does the support for several servers add to a section? Pin this to one core |
//! | `commands` | how many commands does a section take in a cluster, and on one server? |
//! | `confirmation` | what does waiting for two replicas cost? |
//! | `throughput` | how do three primaries compare with one, measured, and computed for more cores? |
//!
//! With `TRACE` set, the events of the crate go to standard error. With `TMPDIR` in memory, a busy disk does not delay a
//! failover: sentinels and nodes of a cluster wait for it when they save their state.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench stops at the first error"
)]

#[path = "../support/mod.rs"]
mod bench;
#[path = "../../tests/support/mod.rs"]
mod support;

mod commands;
mod confirmation;
mod cpu;
mod gaps;
mod model;
mod numbers;
mod router;
mod sections;
mod throughput;

use std::{env, fs};

use tracing_subscriber::fmt;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if env::var_os("TRACE").is_some() {
        let events = fmt().with_max_level(tracing::Level::DEBUG);
        events.with_writer(std::io::stderr).init();
    }
    // Cargo passes `--bench`.
    let mut words = env::args().skip(1).filter(|word| !word.starts_with("--"));
    let part = words.next().unwrap_or_default();
    let before = load();
    match &*part {
        "gaps" => gaps::measure(words.next().as_deref()).await,
        "router" => router::measure().await,
        "commands" => commands::measure().await,
        "confirmation" => confirmation::measure().await,
        "throughput" => throughput::measure().await,
        _ => panic!("name a part: gaps, router, commands, confirmation or throughput"),
    }
    println!("\nload average: {before} before, {} after", load());
}

/// The load averages over 1, 5 and 15 minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The number of turns of each contestant.
fn rounds(default: usize) -> usize {
    let set = env::var("ROUNDS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}
