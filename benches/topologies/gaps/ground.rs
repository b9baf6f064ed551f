//! The servers, and what happens to them.

use super::PATIENCE;
use crate::support::sentinel::NAME;
use crate::support::{Cluster, RedisServer, SentinelSet, eventually};
use reentry::{Locks, LocksBuilder};

/// The replica of the first node of a cluster.
const REPLICA: usize = 3;

/// The fault of the server that has the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server is killed, and the sentinels fail over.
    SentinelKill,
    /// The server is stopped by a signal.
    SentinelFreeze,
    SentinelShutDown,
    /// The sentinels are told to fail over.
    SentinelPlanned,
    ClusterKill,
    ClusterFreeze,
    /// Its replica is told to take over.
    ClusterPlanned,
    /// Another primary gets the slot.
    ClusterMove,
    /// The server is killed, and started again immediately, without its data.
    OneRestart,
}

pub(super) const FAULTS: [Fault; 9] = [
    Fault::SentinelKill,
    Fault::ClusterKill,
    Fault::OneRestart,
    Fault::SentinelFreeze,
    Fault::ClusterFreeze,
    Fault::SentinelShutDown,
    Fault::ClusterMove,
    Fault::SentinelPlanned,
    Fault::ClusterPlanned,
];

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SentinelKill => "sentinels: kill -9",
            Self::SentinelFreeze => "sentinels: SIGSTOP",
            Self::SentinelShutDown => "sentinels: SHUTDOWN",
            Self::SentinelPlanned => "sentinels: SENTINEL FAILOVER",
            Self::ClusterKill => "cluster: kill -9",
            Self::ClusterFreeze => "cluster: SIGSTOP",
            Self::ClusterPlanned => "cluster: CLUSTER FAILOVER",
            Self::ClusterMove => "cluster: slot moved",
            Self::OneRestart => "one server: killed, restarted",
        }
    }
}

/// Servers that were started for one fault. The first of several is the one that fails.
#[derive(Debug)]
pub(super) enum Ground {
    Sentinels(SentinelSet),
    Cluster(Cluster),
    One(RedisServer),
}

impl Ground {
    pub(super) async fn start(fault: Fault) -> Self {
        match fault {
            Fault::SentinelKill
            | Fault::SentinelFreeze
            | Fault::SentinelShutDown
            | Fault::SentinelPlanned => Self::Sentinels(SentinelSet::start().await),
            Fault::ClusterKill
            | Fault::ClusterFreeze
            | Fault::ClusterPlanned
            | Fault::ClusterMove => Self::Cluster(Cluster::start().await),
            Fault::OneRestart => Self::One(RedisServer::start().await),
        }
    }

    pub(super) fn locks(&self) -> LocksBuilder {
        Locks::builder(match self {
            Self::Sentinels(set) => format!("redis+sentinel://{}/{NAME}", set.addresses()),
            Self::Cluster(cluster) => format!("redis+cluster://{}", cluster.seeds()),
            Self::One(server) => server.url(),
        })
    }

    /// The hash tag of all keys, so that the first server has them.
    pub(super) async fn tag(&self) -> String {
        let Self::Cluster(cluster) = self else {
            return "order".to_owned();
        };
        for number in 0.. {
            let tag = format!("order:{number}");
            if cluster.owner_of(&tag).await == 0 {
                return tag;
            }
        }
        unreachable!("each server has some of the slots")
    }

    fn nodes(&self) -> &[RedisServer] {
        match self {
            Self::Sentinels(set) => &set.nodes,
            Self::Cluster(cluster) => &cluster.nodes,
            Self::One(server) => std::slice::from_ref(server),
        }
    }

    /// Waits until the replicas have all writes so far.
    pub(super) async fn until_replicated(&self) {
        let first = &self.nodes()[0];
        match self {
            Self::Sentinels(set) => {
                for replica in &set.nodes[1..] {
                    first.until_replicated_to(replica).await;
                }
            }
            Self::Cluster(cluster) => {
                first.until_replicated_to(&cluster.nodes[REPLICA]).await;
            }
            Self::One(_) => {}
        }
    }

    /// Returns when the fault has occurred, or, if another server gets the slot, when that server has it.
    pub(super) async fn strike(&self, fault: Fault, tag: &str) {
        let first = &self.nodes()[0];
        match (fault, self) {
            (Fault::SentinelKill | Fault::ClusterKill, _) => first.stop(),
            (Fault::SentinelFreeze | Fault::ClusterFreeze, _) => first.pause(),
            (Fault::SentinelShutDown, _) => first.shut_down().await,
            (Fault::SentinelPlanned, Self::Sentinels(set)) => {
                let failover = format!("SENTINEL FAILOVER {NAME}");
                set.sentinels[0].ask(&failover).await;
            }
            (Fault::ClusterPlanned, Self::Cluster(cluster)) => {
                cluster.nodes[REPLICA].ask("CLUSTER FAILOVER").await;
            }
            (Fault::ClusterMove, Self::Cluster(cluster)) => {
                let slot = cluster.slot_of(tag).await;
                cluster.move_slot(slot, 1).await;
            }
            (Fault::OneRestart, Self::One(server)) => {
                server.stop();
                server.start_again().await;
            }
            _ => unreachable!("this fault has other servers"),
        }
    }

    /// Waits until a server accepts writes instead of the failed one.
    pub(super) async fn until_served(&self, fault: Fault) {
        let is_served = async || match self {
            Self::Sentinels(set) => {
                set.nodes[1].is_primary().await || set.nodes[2].is_primary().await
            }
            Self::Cluster(cluster) if fault != Fault::ClusterMove => {
                let replica = &cluster.nodes[REPLICA];
                let info = replica.ask("CLUSTER INFO").await;
                replica.is_primary().await && info.contains("cluster_state:ok")
            }
            Self::Cluster(_) | Self::One(_) => true,
        };
        eventually(PATIENCE, "a server takes writes", is_served).await;
    }

    /// Waits until clients can learn the address of this server. The nodes of a cluster publish it immediately.
    pub(super) async fn until_told(&self, fault: Fault) {
        let Self::Sentinels(set) = self else {
            return self.until_served(fault).await;
        };
        let old = set.nodes[0].port().to_string();
        let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}");
        let is_told = async || {
            for sentinel in &set.sentinels {
                let named = sentinel.ask(&command).await;
                if named.lines().nth(1).is_some_and(|port| port != old) {
                    return true;
                }
            }
            false
        };
        eventually(PATIENCE, "a sentinel names it", is_told).await;
    }
}
