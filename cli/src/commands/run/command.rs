//! The command as a process: its start, its end, its environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command as Program};

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::args::Args;
use super::guard::Guard;
use super::orphans::Orphans;
use super::steps::{Ended, Event};
use super::tree::Tree;
use crate::acquire::Acquired;
use crate::acquire::enclosing::{self, HeldKey};
use crate::args::Global;
use crate::exit::{Exit, Failure};

/// A command that runs.
pub(super) struct Command {
    pid: Pid,
    /// The processes of the command.
    pub(super) tree: Tree,
    has_ended: bool,
    guard: Guard,
    orphans: Orphans,
    /// The command is waited for exclusively by its id. So its stops are seen as well, and so is its end while the id
    /// is still its own.
    _child: Child,
}

/// The reason why the command was not started.
#[derive(Debug)]
pub(super) struct NotStarted {
    code: u8,
    error: anyhow::Error,
}

impl NotStarted {
    /// The failure, with the exit codes of env(1): 127 if the command was not found, 126 if it cannot be executed.
    pub(super) fn into_exit(self, global: &Global) -> Exit {
        let failure = Failure::new(self.error, global.json);
        failure.ending_with(Exit::Code(self.code)).say()
    }
}

impl Command {
    /// Starts the command, and before it the guard.
    ///
    /// With a terminal, the command stays in the process group of this process: so the keys of the terminal reach both,
    /// and a shell can stop and continue them as one job. Without a terminal, the command leads a group of its own.
    pub(super) fn start(
        words: &[OsString],
        acquired: &Acquired,
        args: &Args,
        global: &Global,
    ) -> Result<Self, NotStarted> {
        let (program, arguments) = split(words)?;
        let Acquired {
            lock,
            reentered,
            enclosing,
            locks: _,
        } = acquired;
        let hold = lock.hold().map(|hold| hold.to_string());
        let hold = hold.unwrap_or_default();
        let shares_group = has_terminal();
        let guard = Guard::start(&hold, args.grace_of_guard(), args.options.quiet);
        let guard = guard.context("cannot start the guard of the command");
        let mut guard = guard.map_err(|error| NotStarted {
            code: Exit::Failed.code(),
            error,
        })?;
        let keys = lock.keys().into_iter().chain(keys_of(reentered));
        let tokens = lock.tokens().iter().map(ToString::to_string).collect();
        let tokens: Vec<_> = [tokens, tokens_of(reentered)].concat();
        let mut command = Program::new(program);
        command
            .args(arguments)
            .env("REENTRY_KEY", keys.collect::<Vec<_>>().join("\n"))
            .env("REENTRY_TOKEN", tokens.join("\n"))
            .env(enclosing::HOLD, &hold)
            .env(
                enclosing::VARIABLE,
                enclosing.and(&lock.holds(), &global.prefix),
            );
        if !shares_group {
            command.process_group(0);
        }
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                guard.over();
                return Err(not_started(program, error));
            }
        };
        let pid = Pid::from_child(&child);
        guard.watch(pid, shares_group);
        Ok(Self {
            pid,
            tree: Tree::new(pid, shares_group, &hold),
            has_ended: false,
            guard,
            orphans: Orphans::new(),
            _child: child,
        })
    }

    /// Becomes the command, under the locks of the runs around this one. Those runs renew the locks, and end the
    /// command if a lock is lost. Returns only if that fails.
    pub(super) fn reenter(words: &[OsString], held: &[HeldKey]) -> NotStarted {
        let (program, arguments) = match split(words) {
            Ok(words) => words,
            Err(error) => return error,
        };
        let keys: Vec<_> = keys_of(held).collect();
        let mut command = Program::new(program);
        command
            .args(arguments)
            .env("REENTRY_KEY", keys.join("\n"))
            .env("REENTRY_TOKEN", tokens_of(held).join("\n"))
            .envs(held.first().map(|held| (enclosing::HOLD, &held.hold)));
        not_started(program, command.exec())
    }

    pub(super) fn shares_group(&self) -> bool {
        self.tree.shares_group()
    }

    /// Sends the command a signal, if it has not ended.
    pub(super) fn signal(&self, number: i32) {
        match Signal::from_named_raw(number) {
            Some(signal) if !self.has_ended => self.tree.signal_command(signal),
            _ => {}
        }
    }

    /// Whether neither the command nor any of its processes is left.
    pub(super) fn is_gone(&mut self) -> bool {
        if !self.has_ended {
            return false;
        }
        // On other systems only its group is known, and the command has that group until then.
        if cfg!(not(target_os = "linux")) {
            self.reap();
        }
        self.tree.is_empty()
    }

    /// The change in the state of the command since the last call.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.orphans.reap(&[self.pid, self.guard.pid()]);
        if self.has_ended {
            return None;
        }
        // The kernel keeps the id of an ended process until the process was waited for. Until then no other process and
        // no other group has this id, so the processes of the group can be told apart from others.
        let Some(status) = self.wait(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) else {
            let status = self.wait(WaitIdOptions::STOPPED)?;
            return status.stopping_signal().map(Event::Stopped);
        };
        self.has_ended = true;
        // Some systems report more bits of the exit code than a process can return.
        let code = status
            .exit_status()
            .and_then(|code| u8::try_from(code & 0xff).ok());
        let signal = status.terminating_signal().map(Ended::Signal);
        let ended = signal.or(code.map(Ended::Code));
        ended.map(Event::Ended)
    }

    /// Kills the command immediately.
    fn wait(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        // An error would mean that the command is no child of ours. It is our child until it was waited for.
        waitid(WaitId::Pid(self.pid), options | WaitIdOptions::NOHANG).ok()?
    }

    /// Waits for the end of the command. From now on its id may belong to another process.
    fn reap(&self) {
        let _ = self.wait(WaitIdOptions::EXITED);
    }

    /// Ends the guard: nothing of the command is left, or the remaining processes were left on purpose.
    pub(super) fn over(mut self) {
        self.guard.over();
        self.reap();
    }
}

/// The program and its arguments.
fn split(words: &[OsString]) -> Result<(&OsString, &[OsString]), NotStarted> {
    words.split_first().ok_or_else(|| NotStarted {
        code: Exit::Failed.code(),
        error: anyhow!("no command was given"),
    })
}

fn keys_of(held: &[HeldKey]) -> impl Iterator<Item = &str> {
    held.iter().map(|held| &*held.key)
}

/// The tokens as text. An unknown token is an empty line.
fn tokens_of(held: &[HeldKey]) -> Vec<String> {
    let tokens = held.iter().map(|held| held.token);
    tokens
        .map(|token| token.map_or_else(String::new, |token| token.to_string()))
        .collect()
}

/// Whether a terminal controls this process.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

fn not_started(program: &OsString, error: io::Error) -> NotStarted {
    let code = match error.kind() {
        ErrorKind::NotFound => 127,
        _ => 126,
    };
    let program = program.display();
    let error = anyhow!(error).context(format!("cannot run `{program}`"));
    NotStarted { code, error }
}
