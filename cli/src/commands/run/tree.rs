//! All processes that a command has started, and their ends.
//!
//! On Linux they are looked for in `/proc`: the command, its children and theirs, those of its process group, and whatever
//! has the id of the hold in its environment, and so also a child whose parent has ended. Elsewhere it is the process
//! group, or the command alone where that shares the group of `reentry run`.

use rustix::process::{Pid, Signal, kill_process};

#[cfg(target_os = "linux")]
mod proc;

pub(super) struct Tree {
    command: Pid,
    shares_group: bool,
    #[cfg(target_os = "linux")]
    found: proc::Found,
}

impl Tree {
    pub(super) fn new(command: Pid, shares_group: bool, hold: &str) -> Self {
        #[cfg(not(target_os = "linux"))]
        let _ = hold;
        Self {
            command,
            shares_group,
            #[cfg(target_os = "linux")]
            found: proc::Found::new(command.as_raw_nonzero().get(), shares_group, hold),
        }
    }

    pub(super) fn shares_group(&self) -> bool {
        self.shares_group
    }

    /// Sends the command alone a signal. It must not have been waited for.
    pub(super) fn signal_command(&self, signal: Signal) {
        // Where it has ended, there is nothing to signal.
        let _ = kill_process(self.command, signal);
    }
}

#[cfg(target_os = "linux")]
impl Tree {
    /// Sends all of them a signal. One that has ended meanwhile needs none.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        for pid in self.found.look().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether none of them is left.
    pub(super) fn is_empty(&mut self) -> bool {
        self.found.look().next().is_none()
    }
}

#[cfg(not(target_os = "linux"))]
impl Tree {
    pub(super) fn signal_all(&mut self, signal: Signal) {
        if self.shares_group {
            self.signal_command(signal);
        } else {
            let _ = rustix::process::kill_process_group(self.command, signal);
        }
    }

    pub(super) fn is_empty(&mut self) -> bool {
        let found = match self.shares_group {
            true => rustix::process::test_kill_process(self.command),
            false => rustix::process::test_kill_process_group(self.command),
        };
        found.is_err()
    }
}
