//! A process that does not outlive its test.

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::{fs, io};

/// A process started by a test. It is killed on drop, and also when the test process itself is killed.
///
/// The latter is done by its *tether*, a shell that reads from a pipe. Only the test process has the other end of the
/// pipe. When that end closes, the shell kills the process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    tether: Child,
}

/// The script of the tether. `$0` is the process, and its group if it leads one. `$1` is its folder. Signals to the
/// whole group (Ctrl-C) must not end the tether first.
const TETHER: &str =
    r#"trap "" INT TERM HUP; read -r _; kill -9 "-$0"; kill -9 "$0"; rm -rf -- "$1""#;

impl Process {
    /// Starts `command` and its tether. If the test process is killed, `folder` is removed too.
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

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a process that is our child");
        if status.is_some() {
            self.untie();
        }
        status
    }

    /// Sends SIGKILL to the process, and to its group if it leads one, and waits for its end. Does nothing if it has
    /// ended.
    pub fn kill(&mut self) {
        let now = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(self.rustix_pid()), now).is_ok_and(|ended| ended.is_none()) {
            // Most processes lead no group.
            let _ = kill_process_group(self.rustix_pid(), Signal::KILL);
        }
        self.child.kill().expect("SIGKILL to our child");
        // The order matters: this process may be killed as well, and after the wait another process may have the id.
        self.untie();
        self.child.wait().expect("our child to end");
    }

    /// Sends SIGINT to its group, which it leads.
    pub fn interrupt_group(&self) {
        kill_process_group(self.rustix_pid(), Signal::INT).expect("a signal to our child's group");
    }

    /// Sends SIGSTOP, and waits until it has taken effect.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(self.rustix_pid()), options))
            .expect("our child to stop");
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The kernel's state of the process, if there is a `/proc`.
    pub fn state(&self) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let state = status.lines().find(|line| line.starts_with("State:"))?;
        Some(state.to_owned())
    }

    /// The standard output, if it was piped and not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The standard input, if it was piped and not taken before.
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
