//! The kinds of faults, and what each of them excuses.

use crate::plan::KEYS;

/// One fault that was made.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// From before the first step of it to after the last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) target: Target,
}

/// What it was done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    All,
    Key(&'static str),
    Worker(String),
}

/// Whose turn a fault is: the lanes go on side by side, so that faults of different lanes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Processes,
    Network,
    Server,
}

pub(crate) const LANES: [Lane; 3] = [Lane::Processes, Lane::Network, Lane::Server];

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
    /// SIGKILL; another worker takes its place.
    Processes Kill "worker killed",
    /// SIGSTOP for longer than any lease, then SIGCONT.
    Processes Stop "worker stopped beyond its leases",
    /// SIGSTOP for less than a lease.
    Processes Hiccup "worker stopped for a moment",
    /// Every connection ends in good order.
    Network CutFin "connections closed",
    /// Every connection is reset.
    Network CutReset "connections reset",
    /// The clients' sides are reset; the server still gets what they had sent.
    Network CutClients "clients' sides reset",
    /// Connections end when a request has been executed, before its answer.
    Network CutAnswers "connections cut at the answer",
    /// Requests are held back for longer than the response timeout, and then delivered.
    Network HoldRequests "requests held back",
    /// Answers and messages likewise.
    Network HoldAnswers "answers held back",
    /// Requests on present connections are held back, while new connections go on.
    Network HoldOld "old connections held back",
    /// Everything arrives late, and then for longer than any lease nothing does.
    Network SlowThenGone "network slow, then gone",
    /// Everything arrives late, but within the response timeout.
    Network Delay "network slow",
    /// Present connections stay open, and nothing passes on them ever again.
    Network HalfOpen "connections half open",
    /// Nothing passes at all, also on new connections, for a while.
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
    /// A memory limit below what is used.
    Server MemoryFull "memory limit reached",
    /// A replica of a master that is not there: READONLY.
    Server ReadOnly "read-only replica",
    /// SIGKILL and a new start with all data.
    Server RestartWithData "server restarted with its data",
    /// SIGKILL and a new start with nothing.
    Server RestartEmpty "server restarted empty",
    /// DEL of one lock.
    Server Delete "DEL of a lock",
    /// FLUSHALL.
    Server FlushAll "FLUSHALL",
}

/// What is wanted, but cannot be made here.
pub(crate) const NOT_RUN: &[&str] = &[
    "clock steps of the server: libfaketime hangs at the start of a redis-server that is linked \
     with jemalloc, and the machine's own clock is not for a test to set",
];

impl Kind {
    /// Whether it comes twice as often, since what it may show takes several things at once.
    pub(crate) fn is_telling(self) -> bool {
        matches!(self, Kind::HoldOld | Kind::SlowThenGone)
    }

    /// Whether locks that are held may be gone afterwards.
    fn takes_data(self) -> bool {
        matches!(self, Kind::RestartEmpty | Kind::Delete | Kind::FlushAll)
    }
}

impl Fault {
    /// Whether it may have taken the lock `key` from its holder.
    pub(crate) fn takes(&self, key: &str) -> bool {
        let touches = match &self.target {
            Target::All => true,
            Target::Key(target) => *target == key,
            Target::Worker(_) => false,
        };
        self.kind.takes_data() && touches
    }

    /// Whether this worker did not run meanwhile.
    pub(crate) fn stops(&self, worker: &str) -> bool {
        matches!(self.kind, Kind::Stop | Kind::Hiccup) && self.hits(worker)
    }

    /// Whether it was made on this worker alone.
    pub(crate) fn hits(&self, worker: &str) -> bool {
        matches!(&self.target, Target::Worker(target) if target == worker)
    }
}

/// The key that a number stands for.
pub(crate) fn key(number: u64) -> &'static str {
    let index = usize::try_from(number).unwrap_or(0) % KEYS.len();
    KEYS[index]
}
