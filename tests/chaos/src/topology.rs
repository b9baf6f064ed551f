//! What the workers lock on, and how long things take there.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What the workers lock on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Topology {
    /// One server, behind a proxy for each worker
    #[default]
    Server,
    /// A primary with two replicas, and three sentinels
    Sentinel,
    /// Three primaries that share the slots, with a replica each
    Cluster,
}

impl Topology {
    /// All times that have to do with leases are so many times as long as with one server: most leases outlast a
    /// failover, so that what it forgets is seen.
    pub(crate) fn scale(self) -> u32 {
        match self {
            Topology::Server => 1,
            Topology::Sentinel | Topology::Cluster => 3,
        }
    }

    /// No lease is longer than this.
    pub(crate) fn longest_ttl(self) -> Duration {
        self.scale() * Duration::from_secs(2)
    }

    /// No request waits longer than this, the last phase apart.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(4),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(20),
        }
    }

    /// How long a request for several keys waits, which has some of them while it waits for the next.
    pub(crate) fn wait_for_several(self) -> Duration {
        match self {
            Topology::Server => self.wait(),
            Topology::Sentinel | Topology::Cluster => self.longest_ttl(),
        }
    }

    /// Within this time after the last fault every worker must have had every key.
    pub(crate) fn calm(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(30),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(60),
        }
    }

    /// For so long a key may be free without any fault although a worker waits for it: the longest lease, two
    /// heartbeats, the pauses between attempts, and time for a machine that is busy. Also longer than two requests for
    /// several keys, one after the other, may have this one while they wait for the next.
    pub(crate) fn longest_stall(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(6),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(18),
        }
    }
}
