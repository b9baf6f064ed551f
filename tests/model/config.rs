//! What is checked: how many processes and waiters, and how much may go wrong.

use std::fmt;

use super::hold::Hold;
use super::mutation::Mutation;
use crate::base::option_types::Mode;

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
    /// Who wants to share the lock: a bit for each waiter of the first process, then of the next one.
    pub(crate) readers: u16,
    /// With how many holders at most each of them shares it, in the same order: a permit of a semaphore. 0 is no limit.
    pub(crate) limits: [u8; 16],
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
    /// A writer goes on as a reader.
    pub(crate) downgrades: u8,
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
            readers: 0,
            limits: [0; 16],
            slow_polls: false,
            chances: Chances::NONE,
            mutation: None,
        }
    }

    /// The waiters of each process that share the lock: a bit for each of them.
    pub(crate) const fn reading(self, of_processes: &[u16]) -> Self {
        let (mut readers, mut process) = (0, 0);
        while process < of_processes.len() {
            readers |= of_processes[process] << (process as u16 * self.waiters as u16);
            process += 1;
        }
        Self { readers, ..self }
    }

    /// These take permits: a limit for each waiter of the first process, then of the next one; 0 for any other waiter.
    pub(crate) const fn permits(mut self, limits: &[u8]) -> Self {
        let mut at = 0;
        while at < limits.len() {
            self.limits[at] = limits[at];
            if limits[at] > 0 {
                self.readers |= 1 << at;
            }
            at += 1;
        }
        self
    }

    fn at(&self, hold: Hold) -> usize {
        usize::from(hold.process * self.waiters + hold.waiter)
    }

    pub(crate) fn mode(&self, hold: Hold) -> Mode {
        if self.readers & 1 << self.at(hold) == 0 {
            Mode::Exclusive
        } else {
            Mode::Shared
        }
    }

    /// With how many holders at most it shares the lock.
    pub(crate) fn limit(&self, hold: Hold) -> Option<u8> {
        let limit = self.limits[self.at(hold)];
        (limit > 0).then_some(limit)
    }

    /// Who the waiters of a process are.
    pub(crate) fn cast(&self, process: u8) -> Vec<(Mode, Option<u8>)> {
        let waiters = (0..self.waiters).map(|waiter| Hold { process, waiter });
        let kind = |hold| (self.mode(hold), self.limit(hold));
        waiters.map(kind).collect()
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
        downgrades: 0,
        setbacks: 0,
    };
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processes, waiters, ..
        } = self;
        write!(f, "{processes} x {waiters}")?;
        if self.readers != 0 {
            for process in 0..self.processes {
                let cast = self.cast(process);
                let letters = cast.iter().map(|kind| match *kind {
                    (_, Some(limit)) => char::from(b'0' + limit),
                    (Mode::Shared, None) => 'r',
                    _ => 'w',
                });
                write!(f, " {}", letters.collect::<String>())?;
            }
        }
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
            (chances.downgrades, "downgrades"),
            (chances.setbacks, "set-backs"),
        ] {
            if count > 0 {
                write!(f, ", {what} {count}")?;
            }
        }
        Ok(())
    }
}
