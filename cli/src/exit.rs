//! The exit codes, and the messages of failures.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | success with a negative result: there is no such lock, or something is wrong with the server |
//! | 122 | Redis is unavailable: it does not respond, or rejects requests for now |
//! | 123 | the lock was lost |
//! | 124 | the lock was not acquired in time; `run --conflict-exit-code` changes it |
//! | 125 | `reentry` itself failed: invalid arguments, a wrong password or a missing permission, a key that holds something other than a lock, or the system rejected a call |
//! | 126 | `run`: the command cannot be executed |
//! | 127 | `run`: the command was not found |
//! | others | `run`: the exit code of the command, or 128 + n if signal n killed it |
//!
//! The codes from 124 on have the same meaning as in timeout(1) and env(1). Commands rarely use them for themselves.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use reentry::LockError;
#[cfg(unix)]
use rustix::process::{Pid, getpid};
use serde_json::json;

use crate::servers::{Unreachable, rejects_login};
use crate::text::{self, printable};

/// The error if others kept the lock, which says who they are.
#[derive(Debug)]
pub(crate) struct NotAcquired(pub(crate) String);

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NotAcquired {}

/// The way in which the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    No,
    Server,
    Lost,
    NotAcquired,
    Failed,
    /// The exit code of another program, or one that the user chose.
    Code(u8),
    /// The signal that ended the command.
    Signal(i32),
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Self::Success => 0,
            Self::No => 1,
            Self::Server => 122,
            Self::Lost => 123,
            Self::NotAcquired => 124,
            Self::Failed => 125,
        }
    }

    /// The exit code for an error. The error of the crate may be anywhere in the chain.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let of_lock = |error: &LockError| match error {
            error if error.is_unavailable() => Self::Server,
            error if error.is_lost() => Self::Lost,
            error if error.is_busy() || error.is_deadlock() => Self::NotAcquired,
            _ => Self::Failed,
        };
        if error.is::<NotAcquired>() {
            return Self::NotAcquired;
        }
        if error.is::<Unreachable>() {
            let said = error.chain().find_map(|error| error.downcast_ref());
            return match said {
                Some(said) if rejects_login(said) => Self::Failed,
                _ => Self::Server,
            };
        }
        let mut chain = error.chain();
        let said = chain.find_map(|error| error.downcast_ref());
        said.map_or(Self::Failed, of_lock)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        #[cfg(unix)]
        if exit == Exit::Signal(signal_hook::consts::SIGINT) && ends_by_signals(getpid()) {
            // After a command that merely returns 130, a shell continues its script.
            let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGINT);
        }
        exit.code().into()
    }
}

/// Whether a signal without a handler terminates the process. It does not terminate process 1, for example in a
/// container: an abort by a signal becomes a fault there.
#[cfg(unix)]
fn ends_by_signals(pid: Pid) -> bool {
    !pid.is_init()
}

/// An error, and the exit code that the program ends with.
pub(crate) struct Failure {
    error: anyhow::Error,
    exit: Exit,
    is_json: bool,
}

impl Failure {
    pub(crate) fn new(error: anyhow::Error, is_json: bool) -> Self {
        let exit = Exit::of(&error);
        Self {
            error,
            exit,
            is_json,
        }
    }

    /// Replaces the exit code with which the program ends.
    pub(crate) fn ending_with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Prints the error on standard error. If that is closed, only the exit code remains.
    pub(crate) fn say(&self) -> Exit {
        let _ = writeln!(anstream::stderr(), "{self}");
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = format!("{:#}", self.error);
        if self.is_json {
            let code = self.exit.code();
            let json = text::json(&json!({ "error": error, "exit_code": code }));
            return f.write_str(&json.map_err(|_| fmt::Error)?);
        }
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        write!(f, "{red}error:{red:#} {}", printable(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_has_an_exit_code_of_its_own() {
        let error = anyhow::anyhow!("no answer").context(Unreachable);
        assert_eq!(Exit::of(&error), Exit::Server);
    }

    #[cfg(unix)]
    #[test]
    fn process_1_does_not_try_to_end_by_a_signal() {
        assert!(!ends_by_signals(Pid::INIT));
        assert!(ends_by_signals(getpid()));
    }
}
