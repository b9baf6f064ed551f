//! The options of a run on the command line.

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
}
