//! A process that lives no longer than its test.

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::{fs, io};

/// A process started by a test: killed on drop, and also when the test process itself is killed.
///
/// The latter is the work of its *tether*, a shell that reads from a pipe whose other end only the
/// test process has; when that end closes, the shell kills the process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    tether: Child,
}

/// `$0` is the process, and its group if it leads one, `$1` its folder; signals to the whole group
/// (Ctrl-C) must not end the tether first.
const TETHER: &str =
    r#"trap "" INT TERM HUP; read -r _; kill -9 "-$0"; kill -9 "$0"; rm -rf -- "$1""#;

impl Process {
    /// Starts `command` and its tether. If the test process is killed, `folder` goes too.
    pub fn spawn(command: &mut Command, folder: Option<&Path>) -> io::Result<Process> {
        let mut child = command.spawn()?;
        let tether = Command::new("sh")
            .args(["-c", TETHER, &child.id().to_string()])
            .args(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match tether {
            Ok(tether) => Ok(Process { child, tether }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a process that is our child");
        if status.is_some() {
            self.untie();
        }
        status
    }

    /// SIGKILL, also to its group if it leads one, and waits until it is gone. Does nothing if it has ended before.
    pub fn kill(&mut self) {
        let now = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(self.rustix_pid()), now).is_ok_and(|ended| ended.is_none()) {
            // Most lead none.
            let _ = kill_process_group(self.rustix_pid(), Signal::KILL);
        }
        self.child.kill().expect("SIGKILL to our child");
        // Between the two: this process may be killed as well, and what was waited for may have lent its id to another.
        self.untie();
        self.child.wait().expect("our child to end");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGINT to its group, which it leads.
    pub fn interrupt_group(&self) {
        kill_process_group(self.rustix_pid(), Signal::INT).expect("a signal to our child's group");
    }

    /// SIGSTOP, and waits until it has taken effect.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(self.rustix_pid()), options))
            .expect("our child to stop");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// What the kernel says of it, where there is a `/proc`.
    pub fn state(&self) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let state = status.lines().find(|line| line.starts_with("State:"))?;
        Some(state.to_owned())
    }

    /// Its standard output, if it was piped and not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard input, if it was piped and not taken before.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.rustix_pid(), signal).expect("a signal to our child");
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn untie(&mut self) {
        self.tether.kill().expect("SIGKILL to the tether");
        self.tether.wait().expect("the tether to end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
