//! The servers on which the workers lock, and the times that operations take there.

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
    /// The number of replicas of each primary.
    pub(crate) fn replicas(self) -> u32 {
        match self {
            Self::Server => 0,
            Self::Sentinel => 2,
            Self::Cluster => 1,
        }
    }

    /// The factor for all times that depend on leases, compared to one server. Most leases outlast a failover, so that
    /// data that it forgets is noticed.
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

    /// No request waits longer than this, except in the last phase.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(4),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(20),
        }
    }

    /// The limit of a request for several keys, which has some of them while it waits for the next.
    pub(crate) fn wait_for_several(self) -> Duration {
        match self {
            Topology::Server => self.wait(),
            Topology::Sentinel | Topology::Cluster => self.longest_ttl(),
        }
    }

    /// The time after the last fault within which every worker must have had every key.
    pub(crate) fn calm(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(30),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(60),
        }
    }

    /// The time for which a key may be free without any fault although a worker waits for it. It is the longest lease,
    /// two heartbeats, the pauses between attempts, and time for a busy machine. It is also longer than two requests
    /// for several keys, one after the other, may have this one while they wait for the next.
    pub(crate) fn longest_stall(self) -> Duration {
        match self {
            Topology::Server => Duration::from_secs(6),
            Topology::Sentinel | Topology::Cluster => Duration::from_secs(18),
        }
    }
}
