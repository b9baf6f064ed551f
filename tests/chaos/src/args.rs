//! The options of a run on the command line.

use std::path::PathBuf;

use crate::topology::Topology;

/// The options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Duration of the faults in minutes; may be a fraction
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,
    /// Seed of the faults, and of the choices of the workers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Servers that the workers use for their locks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) topology: Topology,
    /// Make workers wait until all replicas have a lock, so that a failover excuses nothing
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Add 64 tasks to each worker, which acquire 10,000 keys one after the other, in common requests; not in a cluster
    #[arg(long)]
    pub(crate) many: bool,
    /// Keep the ledgers and the events of the library in this directory
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// Cause only faults whose names contain one of these comma-separated words
    #[arg(long, value_name = "WORDS")]
    pub(crate) only: Option<String>,
}
