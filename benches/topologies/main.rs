//! What sentinels and clusters cost, and how long a fault of them keeps a lock from its next holder.
//!
//! `cargo bench --package reentry-tests --bench topologies -- PART`, where the part is one of
//!
//! | part | question |
//! |---|---|
//! | `gaps [FAULT]` | how long no caller gets a lock around each fault; `ROUNDS` of each, 10 if it is not set |
//! | `router` | what it adds to a section to know several servers; to be pinned to one core |
//! | `commands` | how many commands a section takes in a cluster, and on one server |
//! | `confirmation` | what it costs to wait for two replicas |
//! | `throughput` | three primaries against one, measured, and computed for more cores |
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
    // Cargo says `--bench`.
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

/// How many processes wanted to run, on average over 1, 5 and 15 minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// How often each contestant has its turn.
fn rounds(default: usize) -> usize {
    let set = env::var("ROUNDS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}
