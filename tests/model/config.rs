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

/// Who wants the lock, and what may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// The waiters of each process, each of whom wants the lock once: `w` writes, `r` reads, and a digit is a permit of a
    /// semaphore, with so many holders at most.
    processes: &'static [&'static str],
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
    pub(crate) delays: u8,
    pub(crate) timeouts: u8,
    pub(crate) duplicates: u8,
    pub(crate) lost_messages: u8,
    pub(crate) crashes: u8,
    pub(crate) drops: u8,
    pub(crate) reentries: u8,
    pub(crate) downgrades: u8,
    pub(crate) setbacks: u8,
}

/// One of the [`Chances`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chance {
    /// A tick passes although something was to be done: a process is slow or paused, or a request, an
    /// answer or a message is.
    Delays(u8),
    /// A request is given up by its client: it is lost, or its answer is, or it is executed late.
    Timeouts(u8),
    /// A request is executed, and will be executed once more.
    Duplicates(u8),
    /// A message is lost.
    LostMessages(u8),
    /// A process ends without a word.
    Crashes(u8),
    /// A caller drops its future.
    Drops(u8),
    /// A body re-enters its lock.
    Reentries(u8),
    /// A writer goes on as a reader.
    Downgrades(u8),
    /// The clock of the server is set back while the lock is held, further than to its token.
    Setbacks(u8),
}

impl Config {
    /// The waiters of each process, while nothing goes wrong.
    pub(crate) fn of(processes: &'static [&'static str]) -> Self {
        Self {
            processes,
            local_handoffs: 1,
            slow_polls: false,
            chances: Chances::default(),
            mutation: None,
        }
    }

    /// Who the waiters of each process are.
    pub(crate) fn casts(&self) -> &'static [&'static str] {
        self.processes
    }

    /// Who the waiters of a process are.
    pub(crate) fn cast(&self, process: u8) -> &'static str {
        self.processes[usize::from(process)]
    }

    fn letter(&self, hold: Hold) -> u8 {
        self.cast(hold.process).as_bytes()[usize::from(hold.waiter)]
    }

    pub(crate) fn mode(&self, hold: Hold) -> Mode {
        match self.letter(hold) {
            b'w' => Mode::Exclusive,
            _ => Mode::Shared,
        }
    }

    /// With how many holders at most it shares the lock.
    pub(crate) fn limit(&self, hold: Hold) -> Option<u8> {
        let digit = self.letter(hold).checked_sub(b'0');
        digit.filter(|limit| *limit < 10)
    }

    /// Another process goes first, always.
    pub(crate) fn strict(self) -> Self {
        Self {
            local_handoffs: 0,
            ..self
        }
    }

    pub(crate) fn slow_polls(self) -> Self {
        Self {
            slow_polls: true,
            ..self
        }
    }

    /// With these chances instead of what it had of them.
    pub(crate) fn with(mut self, chances: &[Chance]) -> Self {
        let all = &mut self.chances;
        for &chance in chances {
            match chance {
                Chance::Delays(count) => all.delays = count,
                Chance::Timeouts(count) => all.timeouts = count,
                Chance::Duplicates(count) => all.duplicates = count,
                Chance::LostMessages(count) => all.lost_messages = count,
                Chance::Crashes(count) => all.crashes = count,
                Chance::Drops(count) => all.drops = count,
                Chance::Reentries(count) => all.reentries = count,
                Chance::Downgrades(count) => all.downgrades = count,
                Chance::Setbacks(count) => all.setbacks = count,
            }
        }
        self
    }

    pub(crate) fn broken(self, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..self
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processes.join(" "))?;
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
