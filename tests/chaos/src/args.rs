//! What one run is to be, as the command line says it.

use std::path::PathBuf;

use crate::register::Writes;
use crate::topology::Topology;

/// What one run is to be.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long the faults go on; may be a fraction
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,
    /// Of the faults and of what the workers try
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// What the workers lock on
    #[arg(long, value_enum, default_value_t)]
    pub(crate) topology: Topology,
    /// Workers wait until all replicas have a lock, and a failover excuses nothing
    #[arg(long)]
    pub(crate) confirm: bool,
    /// 64 more tasks in each worker take one of 10,000 keys after the other: their requests travel together; not in a cluster
    #[arg(long)]
    pub(crate) many: bool,
    /// Writers also add to numbers in a Postgres, behind the fence; with `=plain` without it, and then updates are lost there
    #[arg(
        long,
        value_enum,
        value_name = "WRITES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "fenced"
    )]
    pub(crate) register: Option<Writes>,
    /// Where the timeline goes [default: target/chaos/SEED.svg, or TOPOLOGY-SEED.svg]
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Keep the ledgers, and the events of the library beside them, in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// Make only faults whose name contains one of these words, with commas in between
    #[arg(long, value_name = "WORDS")]
    pub(crate) only: Option<String>,
}
