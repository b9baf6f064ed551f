//! The bounds of the search: the number of processes and waiters, and of mishaps.

use std::fmt;

use super::hold::Hold;
use super::mutation::Mutation;
use crate::base::options::Mode;

/// The times, in ticks of the clock. A heartbeat is one tick, and everything else is in proportion to it.
pub(crate) mod ticks {
    /// The TTL of every hold.
    pub(crate) const TTL: u8 = 3;
    /// The TTL that a re-entry requests.
    pub(crate) const LONG_TTL: u8 = 4;
    /// The lease of a lock that moves to another process: two heartbeats.
    pub(crate) const GRANT: u8 = 2;
    /// The time for which a place is kept after its last request: two heartbeats.
    pub(crate) const PLACE: u8 = 2;
}

/// The callers that want the lock, and what may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// The waiters of each process. Each of them wants the lock once. `w` writes and `r` reads. A digit is a permit of
    /// a semaphore with this maximum number of holders.
    processes: &'static [&'static str],
    /// The number of times in a row that the lock is handed off inside a process.
    pub(crate) turns: u8,
    /// Whether a caller may be slow to poll a future that has been granted the lock.
    pub(crate) slow_polls: bool,
    pub(crate) chances: Chances,
    /// The rule that is broken, if there is one.
    pub(crate) mutation: Option<Mutation>,
}

/// The number of times that each mishap may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Chances {
    pub(crate) delays: u8,
    pub(crate) timeouts: u8,
    pub(crate) duplicates: u8,
    pub(crate) lost_messages: u8,
    pub(crate) crashes: u8,
    pub(crate) drops: u8,
    pub(crate) reentries: u8,
    pub(crate) setbacks: u8,
}

/// One of the [`Chances`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chance {
    /// A tick passes although something had to be done. This represents a process that is slow or paused, or a request,
    /// a response or a message that is late.
    Delays(u8),
    /// A request is given up by its client. It is lost, its response is lost, or it is executed late.
    Timeouts(u8),
    /// A request is executed, and will be executed once more.
    Duplicates(u8),
    /// A message is lost.
    LostMessages(u8),
    /// A process ends abruptly.
    Crashes(u8),
    /// A caller drops its future.
    Drops(u8),
    /// A body re-enters its lock.
    Reentries(u8),
    /// The clock of the server is set back while the lock is held, to before the token of the lock.
    Setbacks(u8),
}

impl Config {
    /// The waiters of each process, while nothing goes wrong.
    pub(crate) fn of(processes: &'static [&'static str]) -> Self {
        Self {
            processes,
            turns: 1,
            slow_polls: false,
            chances: Chances::default(),
            mutation: None,
        }
    }

    /// The kinds of the waiters of each process.
    pub(crate) fn casts(&self) -> &'static [&'static str] {
        self.processes
    }

    /// The kinds of the waiters of a process.
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

    /// The maximum number of holders with which it shares the lock.
    pub(crate) fn limit(&self, hold: Hold) -> Option<u8> {
        let digit = self.letter(hold).checked_sub(b'0');
        digit.filter(|limit| *limit < 10)
    }

    /// Another process always goes first.
    pub(crate) fn strict(self) -> Self {
        Self { turns: 0, ..self }
    }

    pub(crate) fn slow_polls(self) -> Self {
        Self {
            slow_polls: true,
            ..self
        }
    }

    /// Replaces the chances of these kinds.
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
        if self.turns == 0 {
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
