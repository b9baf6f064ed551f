//! The kinds of faults, and what each of them excuses.

use crate::clock;
use crate::plan::KEYS;
use crate::topology::Topology;

/// One fault that was made.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The time from before its first step to after its last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The instant from which on the servers responded as before.
    pub(crate) over: u64,
    pub(crate) target: Target,
    /// The time in which servers may have forgotten what they had answered, because of a failover.
    pub(crate) forgets: Vec<(u64, u64)>,
    /// The description, for the reader of a ledger.
    pub(crate) note: String,
}

/// The target of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    All,
    /// It had no effect.
    None,
    Key(&'static str),
    /// The keys of one node.
    Keys(Vec<&'static str>),
    Worker(String),
}

/// The lane of a fault. The lanes run in parallel, so that faults of different lanes overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Processes,
    Network,
    Server,
    /// The faults of one of several servers. Each of these ends when all servers are healthy again.
    Nodes,
}

pub(crate) const LANES: [Lane; 4] = [Lane::Processes, Lane::Network, Lane::Server, Lane::Nodes];

macro_rules! kinds {
    ($($(#[$doc:meta])* $lane:ident $kind:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind {
            $($(#[$doc])* $kind,)*
        }

        pub(crate) const KINDS: &[Kind] = &[$(Kind::$kind,)*];

        impl Kind {
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            pub(crate) fn lane(self) -> Lane {
                match self {
                    $(Kind::$kind => Lane::$lane,)*
                }
            }
        }
    };
}

kinds! {
    /// SIGKILL; another worker replaces it.
    Processes Kill "worker killed",
    /// SIGSTOP for longer than any lease, then SIGCONT.
    Processes Stop "worker stopped beyond its leases",
    /// SIGSTOP for less than a lease.
    Processes Hiccup "worker stopped for a moment",
    /// Every connection ends in an orderly way.
    Network CutFin "connections closed",
    /// Every connection is reset.
    Network CutReset "connections reset",
    /// The clients' sides are reset; the server still gets what they had sent.
    Network CutClients "clients' sides reset",
    /// Connections end when a request has been executed, before its response.
    Network CutAnswers "connections cut at the answer",
    /// Requests are held back for longer than the response timeout, and then delivered.
    Network HoldRequests "requests held back",
    /// Responses and messages are held back in the same way.
    Network HoldAnswers "answers held back",
    /// Requests on present connections are held back, while new connections work.
    Network HoldOld "old connections held back",
    /// Everything arrives late, and then nothing does for longer than any lease.
    Network SlowThenGone "network slow, then gone",
    /// Everything arrives late, but within the response timeout.
    Network Delay "network slow",
    /// Present connections stay open, and nothing is forwarded on them ever again.
    Network HalfOpen "connections half open",
    /// Nothing is forwarded at all, also on new connections, for a while.
    Network Blackhole "network gone",
    /// New connections are refused and present ones cut.
    Network Refuse "connections refused",
    /// Requests are executed twice.
    Network Twice "requests executed twice",
    /// Pub/sub messages are lost.
    Network LoseMessages "messages lost",
    /// CLIENT KILL of the connections for commands.
    Server KillCommands "CLIENT KILL of commands",
    /// CLIENT KILL of the inboxes.
    Server KillInboxes "CLIENT KILL of inboxes",
    /// CLIENT PAUSE … ALL.
    Server PauseAll "CLIENT PAUSE ALL",
    /// CLIENT PAUSE … WRITE.
    Server PauseWrites "CLIENT PAUSE WRITE",
    /// SCRIPT FLUSH.
    Server ScriptFlush "SCRIPT FLUSH",
    /// A script that keeps the server busy.
    Server SlowScript "slow script",
    /// The server does not run for a while: SIGSTOP, SIGCONT.
    Server Freeze "server stopped",
    /// A memory limit below the used memory.
    Server MemoryFull "memory limit reached",
    /// A replica of a master that does not exist: READONLY.
    Server ReadOnly "read-only replica",
    /// SIGKILL and a restart with all data.
    Server RestartWithData "server restarted with its data",
    /// SIGKILL and a restart with nothing.
    Server RestartEmpty "server restarted empty",
    /// DEL of one lock.
    Server Delete "DEL of a lock",
    /// FLUSHALL.
    Server FlushAll "FLUSHALL",
    /// SIGKILL; it returns without data when another node is the primary.
    Nodes PrimaryKilled "primary killed",
    /// SIGSTOP until another node is the primary, then SIGCONT.
    Nodes PrimaryStopped "primary stopped beyond a failover",
    /// SIGSTOP for less than a failover takes, then SIGCONT.
    Nodes PrimaryFrozen "primary stopped for a moment",
    /// SHUTDOWN; it returns without data when another node is the primary.
    Nodes PrimaryShutDown "primary shut down",
    /// What is written to it from then on does not reach its replicas; then SIGKILL.
    Nodes CutThenKilled "primary cut off from its replicas, then killed",
    /// Neither its replicas nor the sentinels reach it, but its clients do.
    Nodes CutOff "primary cut off from all but its clients",
    /// SENTINEL FAILOVER.
    Nodes ToldSentinel "SENTINEL FAILOVER",
    /// CLUSTER FAILOVER.
    Nodes ToldReplica "CLUSTER FAILOVER",
    /// CLUSTER FAILOVER TAKEOVER, by a replica that was cut off.
    Nodes TakenOver "CLUSTER FAILOVER TAKEOVER",
    /// A slot moves to another node with its keys, and back.
    Nodes SlotMoved "slot moved and back",
    /// No replica is connected for a while.
    Nodes ReplicationCut "replication cut",
    /// The primary rejects writes, because it requires more replicas than there are.
    Nodes NoReplicas "NOREPLICAS",
    /// REPLICAOF a server that does not exist, at the primary.
    Nodes Demoted "primary read-only",
    /// SIGKILL of a replica, which returns without data.
    Nodes ReplicaKilled "replica killed",
    /// SIGSTOP of a replica.
    Nodes ReplicaStopped "replica stopped",
    /// SIGKILL of a sentinel.
    Nodes SentinelKilled "sentinel killed",
    /// SIGSTOP of one or all sentinels.
    Nodes SentinelsStopped "sentinels stopped",
    /// CLIENT KILL at all sentinels.
    Nodes SentinelsCut "CLIENT KILL at the sentinels",
    /// A failover that no fault was meant to cause: a server was too slow for the others. It is never drawn.
    Nodes Unasked "failover that was not asked for",
}

impl Kind {
    /// Returns whether it is caused on this topology.
    pub(crate) fn runs_in(self, topology: Topology) -> bool {
        match (self.lane(), topology) {
            (Lane::Processes, _) => true,
            (Lane::Network, _) => topology == Topology::Server,
            (Lane::Server, Topology::Server) => true,
            // The others would be failovers, or are in the lane of the nodes.
            (Lane::Server, _) => matches!(
                self,
                Kind::KillCommands
                    | Kind::KillInboxes
                    | Kind::PauseAll
                    | Kind::PauseWrites
                    | Kind::ScriptFlush
                    | Kind::SlowScript
                    | Kind::MemoryFull
                    | Kind::Delete
                    | Kind::FlushAll
            ),
            (Lane::Nodes, Topology::Server) => false,
            (Lane::Nodes, Topology::Sentinel) => !matches!(
                self,
                Kind::ToldReplica | Kind::TakenOver | Kind::SlotMoved | Kind::Unasked
            ),
            (Lane::Nodes, Topology::Cluster) => !matches!(
                self,
                Kind::CutOff
                    | Kind::ToldSentinel
                    | Kind::Demoted
                    | Kind::SentinelKilled
                    | Kind::SentinelsStopped
                    | Kind::SentinelsCut
                    | Kind::Unasked
            ),
        }
    }

    /// Returns whether it makes another node the primary.
    pub(crate) fn fails_over(self) -> bool {
        matches!(
            self,
            Kind::PrimaryKilled
                | Kind::PrimaryStopped
                | Kind::PrimaryShutDown
                | Kind::CutThenKilled
                | Kind::CutOff
                | Kind::ToldSentinel
                | Kind::ToldReplica
                | Kind::TakenOver
                | Kind::Unasked
        )
    }

    /// Returns whether it comes twice as often, because its possible effects need several conditions at the same time.
    pub(crate) fn is_telling(self) -> bool {
        matches!(
            self,
            Kind::HoldOld
                | Kind::SlowThenGone
                | Kind::PrimaryKilled
                | Kind::PrimaryStopped
                | Kind::CutThenKilled
                | Kind::CutOff
                | Kind::TakenOver
                | Kind::SlotMoved
        )
    }

    /// Returns whether locks that are held may be gone afterwards.
    fn takes_data(self) -> bool {
        matches!(self, Kind::RestartEmpty | Kind::Delete | Kind::FlushAll)
    }
}

impl Fault {
    /// A fault that has just been undone.
    pub(crate) fn new(kind: Kind, start: u64, target: Target) -> Fault {
        let end = clock::now();
        Fault {
            kind,
            start,
            end,
            over: end,
            target,
            forgets: Vec::new(),
            note: String::new(),
        }
    }

    /// Returns whether it took the lock `key` from its holder.
    pub(crate) fn takes(&self, key: &str) -> bool {
        self.kind.takes_data() && self.touches(key)
    }

    /// Returns whether it may have taken the lock `key` from its holder, unless replicas had confirmed that.
    pub(crate) fn may_take(&self, key: &str) -> bool {
        !self.forgets.is_empty() && self.touches(key)
    }

    /// Returns whether it makes another node the primary of the lock `key`. The old one considers itself a primary
    /// until it is reconfigured.
    pub(crate) fn replaces(&self, key: &str) -> bool {
        self.kind.fails_over() && self.touches(key)
    }

    /// Returns whether it moves the lock `key` from one node to another. A fault that visits the nodes one by one may
    /// miss the lock.
    pub(crate) fn moves(&self, key: &str) -> bool {
        self.kind == Kind::SlotMoved && self.touches(key)
    }

    /// Returns whether the data that it took was taken between these two instants.
    pub(crate) fn loses_within(&self, from: u64, to: u64) -> bool {
        let meets = |&(start, end): &(u64, u64)| start <= to && end >= from;
        if self.kind.takes_data() {
            meets(&(self.start, self.end))
        } else {
            self.forgets.iter().any(meets)
        }
    }

    fn touches(&self, key: &str) -> bool {
        match &self.target {
            Target::All => true,
            Target::Key(target) => *target == key,
            Target::Keys(targets) => targets.contains(&key),
            Target::Worker(_) | Target::None => false,
        }
    }

    /// Returns whether this worker did not run in the meantime.
    pub(crate) fn stops(&self, worker: &str) -> bool {
        matches!(self.kind, Kind::Stop | Kind::Hiccup) && self.hits(worker)
    }

    /// Returns whether it was caused only on this worker.
    pub(crate) fn hits(&self, worker: &str) -> bool {
        matches!(&self.target, Target::Worker(target) if target == worker)
    }
}

/// The key for a number.
pub(crate) fn key(number: u64) -> &'static str {
    let index = usize::try_from(number).unwrap_or(0) % KEYS.len();
    KEYS[index]
}
