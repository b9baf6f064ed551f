//! Measures `reentry` beside other locks on Redis, and beside references that do as little as
//! possible.
//!
//! `cargo run --release -p reentry-peers -- drain` answers one question, `-- all` every one of
//! them, and `-- figures` prints what the project wants to know of itself in one table;
//! docs/performance.md says what each measures. Every run starts a `redis-server` of its own.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bench::{Bench, Common};
pub use crate::heap::{Allocated, Counter};
use crate::measures::{
    drain, fairness, figures, handoff, idle, memory, processes, subscriptions, throughput,
    uncontended, waiting,
};

mod all;
mod bare;
mod bench;
mod clock;
mod contestant;
mod contestants;
mod crew;
mod heap;
mod kind;
mod measures;
mod monitor;
mod numbers;
mod plot;
mod report;
mod sections;
mod server;
mod settings;
mod spinner;
mod worker;

#[derive(Debug, Parser)]
#[command(about = "Measures reentry beside other locks on Redis")]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything once, in sizes that take less than ten minutes together
    All,
    /// Lock and unlock when no other client wants the lock
    Uncontended(uncontended::Args),
    /// Pairs per second of many tasks with a key each
    Throughput(throughput::Args),
    /// The time for each section while a queue of one process drains
    Drain(drain::Args),
    /// Commands for each section when several processes want one lock
    Processes(processes::Args),
    /// The time from a release in one process to the entry in another one
    Handoff(handoff::Args),
    /// Commands of tasks that wait
    Waiting(waiting::Args),
    /// Sections and waits of tasks that want one lock all the time
    Fairness(fairness::Args),
    /// Client memory for each held lock
    Memory(memory::Args),
    /// Commands of one idle hold
    Idle(idle::Args),
    /// Subscriptions of processes that wait for many keys
    Subscriptions(subscriptions::Args),
    /// The costs of this project beside the bare classic scripts, in one table
    Figures(figures::Args),
    /// Draws charts from files that --out has written
    Plot {
        /// The folder with the files (*.jsonl)
        #[arg(long)]
        from: PathBuf,
        /// The folder for the charts
        #[arg(long, default_value = "docs/plots")]
        to: PathBuf,
    },
    /// A worker process of one of the others
    #[command(hide = true)]
    Worker { order: String },
    /// What the counting program of `figures` counts
    #[command(hide = true)]
    Heap(heap::Order),
    /// A process that keeps a core awake
    #[command(hide = true)]
    Spin,
}

/// What the command line asks for. `counter` tells what has been allocated, where the allocator counts.
///
/// # Errors
///
/// If the server, a contestant or the output fails.
pub async fn run(counter: Option<Counter>) -> Result<()> {
    let Cli { common, command } = Cli::parse();
    let start = || Bench::start(&common);
    match command {
        Command::All => all::run(&common).await,
        Command::Uncontended(args) => uncontended::run(&start().await?, &args).await,
        Command::Throughput(args) => throughput::run(&start().await?, &args).await,
        Command::Drain(args) => drain::run(&start().await?, &args).await,
        Command::Processes(args) => processes::run(&start().await?, &args).await,
        Command::Handoff(args) => handoff::run(&start().await?, &args).await,
        Command::Waiting(args) => waiting::run(&start().await?, &args).await,
        Command::Fairness(args) => fairness::run(&start().await?, &args).await,
        Command::Memory(args) => memory::run(&start().await?, &args).await,
        Command::Idle(args) => idle::run(&start().await?, &args).await,
        Command::Subscriptions(args) => subscriptions::run(&start().await?, &args).await,
        Command::Figures(args) => figures::run(&start().await?, &args).await,
        Command::Plot { from, to } => plot::run(&from, &to),
        Command::Worker { order } => worker::run(&order).await,
        Command::Heap(order) => heap::run(&order, counter).await,
        Command::Spin => spinner::spin().await,
    }
}
