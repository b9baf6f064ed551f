//! All processes that a command has started, and how they are terminated.
//!
//! On Linux they are found in `/proc`: the command and its descendants, the processes of its process group, and every
//! process with the hold in the variables of `run`. So a child is found even if its parent has ended. If `/proc` is
//! missing or does not show them, they are the process group, or only the command if it shares the group of
//! `reentry run`.

use rustix::process::{
    Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process,
    test_kill_process_group,
};

mod proc;

pub(super) struct Tree {
    /// The command; `None` if only the hold is known.
    command: Option<Pid>,
    shares_group: bool,
    found: proc::Found,
}

impl Tree {
    /// The processes of this command, which must not have been waited for.
    pub(super) fn new(command: Pid, shares_group: bool, hold: &str) -> Self {
        let found = proc::Found::new(command.as_raw_nonzero().get(), shares_group, hold);
        Self {
            command: Some(command),
            shares_group,
            found,
        }
    }

    /// The processes with this hold in their environment, and the children of those.
    pub(super) fn of_hold(hold: &str) -> Self {
        Self {
            command: None,
            shares_group: true,
            found: proc::Found::of_hold(hold),
        }
    }

    pub(super) fn shares_group(&self) -> bool {
        self.shares_group
    }

    /// Sends a signal to the command only. The command must not have been waited for.
    pub(super) fn signal_command(&self, signal: Signal) {
        if let Some(command) = self.command {
            // A command that has ended needs no signal.
            let _ = kill_process(command, signal);
        }
    }

    /// Sends all processes a signal, each once. A process that has ended in the meantime needs none.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        let scan = self.found.scan();
        let has_gone = scan.as_ref().is_some_and(|scan| scan.command_has_gone);
        // The command and its group need no search.
        let command = self.command.filter(|_| !has_gone);
        let group = command.filter(|_| !self.shares_group);
        let is_in_group = group.is_some_and(|group| getpgid(self.command) == Ok(group));
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
        if !is_in_group && let Some(command) = command {
            let _ = kill_process(command, signal);
        }
        for process in scan.into_iter().flat_map(|scan| scan.alive) {
            let [pid, its_group] = [process.pid, process.group].map(Pid::from_raw);
            let is_signalled = pid == command || its_group == group && group.is_some();
            if let Some(pid) = pid.filter(|_| !is_signalled) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Whether no process is left. If that cannot be seen, some may be.
    pub(super) fn is_empty(&mut self) -> bool {
        match (self.found.scan(), self.command) {
            (Some(scan), _) => scan.is_complete && scan.alive.is_empty(),
            (None, None) => true,
            (None, Some(_)) if cfg!(target_os = "linux") => false,
            (None, Some(command)) => match self.shares_group {
                true => test_kill_process(command).is_err(),
                false => test_kill_process_group(command).is_err(),
            },
        }
    }
}

/// The children of this process that have ended, and were not waited for.
pub(super) fn ended_children() -> Vec<Pid> {
    proc::ended_children()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn without_proc_the_process_group_gets_the_signal() {
        for shares_group in [false, true] {
            let script = match shares_group {
                true => "echo up; exec sleep 1000",
                false => "sleep 1000 & echo up; wait",
            };
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped());
            if !shares_group {
                command.process_group(0);
            }
            let mut child = command.spawn().unwrap();
            let mut output = child.stdout.take().unwrap();
            output.read_exact(&mut [0; 3]).unwrap();
            let command = Pid::from_child(&child);
            let mut tree = Tree {
                command: Some(command),
                shares_group,
                found: proc::Found::nowhere(),
            };
            if cfg!(target_os = "linux") {
                assert!(!tree.is_empty());
            }
            tree.signal_all(Signal::TERM);
            // The end of all processes that could write.
            assert_eq!(output.read(&mut [0]).unwrap(), 0);
            let signal = child.wait().unwrap().signal();
            assert_eq!(signal, Some(Signal::TERM.as_raw()));
        }
    }
}
