//! The allocations of contestants: for a pair, and for a lock that is held.
//!
//! They are counted in a separate program, `reentry-peers-counted`. Its counting allocator takes time that no other
//! measure should include.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reentry::Locks;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::contestants::classic::Classic;

/// The program that counts.
const PROGRAM: &str = "reentry-peers-counted";
/// Pairs before the count.
const WARM_UP: usize = 100;

/// The allocations since the start of the process.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// The number of requests for memory.
    pub times: usize,
    /// The bytes that have not been freed.
    pub bytes: usize,
}

/// Returns the allocations.
pub type Counter = fn() -> Allocated;

/// The options of the count.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Order {
    /// The server
    #[arg(long)]
    pub(crate) url: String,
    /// Pairs of each contestant
    #[arg(long)]
    pub(crate) pairs: usize,
    /// Locks that each contestant holds
    #[arg(long)]
    pub(crate) locks: usize,
}

/// The counts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Heap {
    /// Allocations for a pair.
    pub(crate) classic_pair: f64,
    pub(crate) pair: f64,
    pub(crate) pair_in_memory: f64,
    /// Bytes for a held lock. A classic one has no watchdog.
    pub(crate) classic_held: f64,
    pub(crate) held: f64,
}

/// Runs the count in the other program.
pub(crate) async fn counted(order: &Order) -> Result<Heap> {
    let program = program().await?;
    let mut command = Command::new(&program);
    command.args(["heap", "--url", &order.url]);
    command.args(["--pairs", &order.pairs.to_string()]);
    command.args(["--locks", &order.locks.to_string()]);
    let ended = command.output().await;
    let ended = ended.with_context(|| format!("{} is not built", program.display()))?;
    let errors = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{PROGRAM} failed: {errors}");
    Ok(serde_json::from_slice(&ended.stdout)?)
}

/// The workspace of both programs, whatever the current directory is.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

/// The path of the other program, next to this one. Under `cargo run` it is built first.
async fn program() -> Result<PathBuf> {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--bin", PROGRAM]);
        build.args(["--manifest-path", MANIFEST]);
        if cfg!(not(debug_assertions)) {
            build.arg("--release");
        }
        if cfg!(feature = "redisson") {
            build.args(["--features", "redisson"]);
        }
        ensure!(build.status().await?.success(), "{PROGRAM} is not built");
    }
    Ok(std::env::current_exe()?.with_file_name(PROGRAM))
}

/// Counts, and prints the counts.
pub(crate) async fn run(order: &Order, counter: Option<Counter>) -> Result<()> {
    let counter = counter.with_context(|| format!("only {PROGRAM} counts"))?;
    let Order { url, pairs, locks } = order;
    let count = Count {
        counter,
        pairs: *pairs,
        locks: *locks,
    };
    let classic = Classic::connect(url).await?;
    let redis = Locks::builder(url).build().await?;
    let memory = Locks::in_memory();
    // The count includes no renewal.
    let long = Duration::from_secs(3600);
    let section = async |locks: &Locks| anyhow::Ok(locks.with_lock("heap", async {}).await?);
    let heap = Heap {
        classic_pair: count
            .pair(async || classic.pair("heap:classic").await)
            .await?,
        pair: count.pair(async || section(&redis).await).await?,
        pair_in_memory: count.pair(async || section(&memory).await).await?,
        classic_held: count
            .held(async |name| classic.take(&format!("classic:{name}")).await)
            .await?,
        held: count
            .held(async |name| Ok(redis.lock(name).ttl(long).acquire().await?))
            .await?,
    };
    println!("{}", serde_json::to_string(&heap)?);
    // The server ends together with the run, and so do the locks.
    Ok(())
}

struct Count {
    counter: Counter,
    pairs: usize,
    locks: usize,
}

impl Count {
    /// Allocations for each pair.
    async fn pair(&self, pair: impl AsyncFn() -> Result<()>) -> Result<f64> {
        for _ in 0..WARM_UP {
            pair().await?;
        }
        let before = (self.counter)().times;
        for _ in 0..self.pairs {
            pair().await?;
        }
        Ok(((self.counter)().times - before) as f64 / self.pairs as f64)
    }

    /// Bytes for each lock that is held, in addition to the guard itself.
    async fn held<T>(&self, acquire: impl AsyncFn(&str) -> Result<T>) -> Result<f64> {
        let mut held = Vec::with_capacity(WARM_UP + self.locks);
        for n in 0..WARM_UP {
            held.push(acquire(&format!("before:{n}")).await?);
        }
        let before = (self.counter)().bytes;
        for n in 0..self.locks {
            held.push(acquire(&format!("held:{n}")).await?);
        }
        Ok(((self.counter)().bytes - before) as f64 / self.locks as f64)
    }
}
