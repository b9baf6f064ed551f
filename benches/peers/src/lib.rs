//! Compares `reentry` with other locks on Redis, and with references that do as little as possible.
//!
//! `cargo run --release -p reentry-peers -- drain` runs one measure, and `-- all` runs all of them. `-- figures` prints
//! the main figures of this project in one table. docs/performance.md describes each measure. Every run starts its own
//! `redis-server`.

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bench::{Bench, Common};
pub use crate::heap::{Allocated, Counter};
use crate::measures::{
    drain, fairness, figures, handoff, idle, memory, network, processes, subscriptions, throughput,
    uncontended, waiting,
};

mod all;
mod bare;
mod bench;
mod clock;
mod contestant;
mod contestants;
mod crew;
mod far;
mod heap;
mod kind;
mod measures;
mod monitor;
mod numbers;
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
    /// All measures once, in sizes that take less than ten minutes in total
    All,
    /// Lock and unlock when no other client wants the lock
    Uncontended(uncontended::Args),
    /// The same over a network that delays what is sent
    Network(network::Args),
    /// Pairs per second of many tasks with one key each
    Throughput(throughput::Args),
    /// Time per section while a queue of one process drains
    Drain(drain::Args),
    /// Commands per section when several processes want one lock
    Processes(processes::Args),
    /// Time from a release in one process to the entry in another one
    Handoff(handoff::Args),
    /// Commands of waiting tasks
    Waiting(waiting::Args),
    /// Sections and waits of tasks that want one lock all the time
    Fairness(fairness::Args),
    /// Client memory for each held lock
    Memory(memory::Args),
    /// Commands of one idle hold
    Idle(idle::Args),
    /// Subscriptions of processes that wait for many keys
    Subscriptions(subscriptions::Args),
    /// Costs of this project in comparison with the bare classic scripts, in one table
    Figures(figures::Args),
    /// Run as a worker process of another subcommand
    #[command(hide = true)]
    Worker { order: String },
    /// Run the count for `figures`, in the counting program
    #[command(hide = true)]
    Heap(heap::Order),
    /// Run as a process that keeps a core awake
    #[command(hide = true)]
    Spin,
}

/// Runs the task of the command line. `counter` returns the allocations, if the allocator counts them.
///
/// # Errors
///
/// If the server, a contestant or the output fails.
pub async fn run(counter: Option<Counter>) -> Result<()> {
    let Cli { common, command } = Cli::parse();
    let start = || Bench::start(&common);
    match command {
        Command::All => all::run(&common).await,
        Command::Network(args) => network::run(&start().await?, &args).await,
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
        Command::Worker { order } => worker::run(&order).await,
        Command::Heap(order) => heap::run(&order, counter).await,
        Command::Spin => spinner::spin().await,
    }
}
