//! What is checked: how many processes and waiters, and how much may go wrong.

use std::fmt;

use super::mutation::Mutation;

/// The ticks of the clock. A heartbeat is one; everything else keeps its proportion to it.
pub(crate) mod ticks {
    /// The TTL of every hold.
    pub(crate) const TTL: u8 = 3;
    /// The TTL that a re-entry asks for.
    pub(crate) const LONG_TTL: u8 = 4;
    /// The lease of a lock that moves to another process: two heartbeats.
    pub(crate) const GRANT: u8 = 2;
    /// How long a place is kept after its last request: two heartbeats.
    pub(crate) const PLACE: u8 = 2;
}

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) processes: u8,
    /// How many want the lock in each process, each of them once.
    pub(crate) waiters: u8,
    /// How many times in a row the lock goes from one of a process to the next.
    pub(crate) local_handoffs: u8,
    /// Whether a caller may be slow to poll a future that has got the lock.
    pub(crate) slow_polls: bool,
    pub(crate) chances: Chances,
    /// The rule that is broken, if one is.
    pub(crate) mutation: Option<Mutation>,
}

/// How often what is beyond the protocol may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Chances {
    /// A tick passes although something was to be done: a process is slow or paused, or a request, an
    /// answer or a message is.
    pub(crate) delays: u8,
    /// A request is given up by its client: it is lost, or its answer is, or it is executed late.
    pub(crate) timeouts: u8,
    /// A request is executed, and will be executed once more.
    pub(crate) duplicates: u8,
    /// A message is lost.
    pub(crate) lost_messages: u8,
    /// A process ends without a word.
    pub(crate) crashes: u8,
    /// A caller drops its future.
    pub(crate) drops: u8,
    /// A body re-enters its lock.
    pub(crate) reentries: u8,
    /// The clock of the server is set back while the lock is held, further than to its token.
    pub(crate) setbacks: u8,
}

impl Config {
    /// So many processes with so many waiters, and nothing goes wrong.
    pub(crate) const fn of(processes: u8, waiters: u8) -> Self {
        Self {
            processes,
            waiters,
            local_handoffs: 1,
            slow_polls: false,
            chances: Chances::NONE,
            mutation: None,
        }
    }

    /// Another process goes first, always.
    pub(crate) const fn strict(self) -> Self {
        Self {
            local_handoffs: 0,
            ..self
        }
    }

    pub(crate) const fn slow_polls(self) -> Self {
        Self {
            slow_polls: true,
            ..self
        }
    }

    pub(crate) const fn with(self, chances: Chances) -> Self {
        Self { chances, ..self }
    }

    pub(crate) fn broken(self, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..self
        }
    }
}

impl Chances {
    pub(crate) const NONE: Self = Self {
        delays: 0,
        timeouts: 0,
        duplicates: 0,
        lost_messages: 0,
        crashes: 0,
        drops: 0,
        reentries: 0,
        setbacks: 0,
    };
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processes, waiters, ..
        } = self;
        write!(f, "{processes} x {waiters}")?;
        if self.local_handoffs == 0 {
            f.write_str(" in strict order")?;
        }
        if self.slow_polls {
            f.write_str(", slow polls")?;
        }
        let chances = self.chances;
        for (count, what) in [
            (chances.delays, "delays"),
            (chances.timeouts, "timeouts"),
            (chances.duplicates, "duplicates"),
            (chances.lost_messages, "lost messages"),
            (chances.crashes, "crashes"),
            (chances.drops, "drops"),
            (chances.reentries, "re-entries"),
            (chances.setbacks, "set-backs"),
        ] {
            if count > 0 {
                write!(f, ", {what} {count}")?;
            }
        }
        Ok(())
    }
}
