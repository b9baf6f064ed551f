//! Chaos on a real server. Worker processes compete for locks while everything around them fails. After that their
//! ledgers are checked for what must not have happened.
//!
//! `cargo xtask chaos --minutes 2 --seed 1`. The harness starts a separate `redis-server` with a proxy in front of it,
//! or a primary with replicas and sentinels, or a cluster, and the workers. The workers are further processes of this
//! program.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use args::Args;

mod args;
mod check;
mod clock;
mod crew;
mod fault;
mod faults;
mod ground;
mod history;
mod inside;
mod ledger;
mod plan;
mod program;
mod run;
mod schedule;
mod section;
mod several;
mod shape;
mod sightings;
mod summary;
mod topology;
mod worker;

/// What the integration tests of the library stand on too.
#[path = "../../support"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest of it")]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a harness ends where its ground gives way"
)]
mod support {
    pub mod admin;
    pub mod clients;
    pub mod cluster;
    pub mod config;
    pub mod dice;
    pub mod leftovers;
    pub mod ports;
    pub mod process;
    pub mod program;
    pub mod proxy;
    pub mod replication;
    pub mod resharding;
    pub mod sentinel;
    pub mod server;
    pub mod stats;
    pub mod wait;
}

/// Breaks a server, its network and its clients, and checks that no lock did what it must not.
///
/// The seed decides which faults come in which order, how long each lasts, and what the workers try.
/// It does not decide how a real machine interleaves all of that: two runs with one seed are alike,
/// not the same.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask chaos", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    worker: Option<Worker>,
}

#[derive(Debug, Subcommand)]
enum Worker {
    /// A worker process of a run
    #[command(hide = true)]
    Worker { order: String },
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match cli.worker {
        Some(Worker::Worker { order }) => {
            runtime.block_on(worker::run(&order))?;
            Ok(ExitCode::SUCCESS)
        }
        None => runtime.block_on(run::run(&cli.args)),
    }
}
