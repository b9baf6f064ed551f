//! The guard: a process that terminates the command if `reentry run` is killed.
//!
//! A process that receives SIGKILL can do nothing any more, and the lease of its lock expires soon after. Its guard
//! reads from a pipe whose other end only `reentry run` has. When the guard sees the end of the pipe, it ends the
//! command with all its processes, as after a loss. The kernel's PR_SET_PDEATHSIG would reach only the command and none
//! of its children, exists only on Linux, and would leave the command no time.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::tree::Tree;
use crate::acquire::enclosing;
use crate::args::duration;
use crate::exit::Exit;

/// The first argument of the guard. It is no subcommand, so that help and completions do not name it.
const NAME: &str = "guard-of-run";

/// The name of the guard in ps(1). The guard is started by another name of its file.
const PROGRAM: &str = "reentry";

/// The word that the guard receives when it has nothing more to do.
const OVER: &str = "over";

/// The interval of the search for processes.
const POLL: Duration = Duration::from_millis(20);

/// The maximum time of an exec, from the end of the pipe on.
const EXEC: Duration = Duration::from_secs(1);

/// The guard, as `reentry run` sees it.
pub(super) struct Guard {
    child: Child,
    orders: ChildStdin,
}

impl Guard {
    /// A quiet guard prints nothing.
    pub(super) fn start(hold: &str, grace: Duration, is_quiet: bool) -> io::Result<Self> {
        let mut command = Command::new(this_program()?);
        command
            .arg0(PROGRAM)
            .arg(NAME)
            .arg(hold)
            .arg(grace.as_secs_f64().to_string())
            .env_remove(enclosing::VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Keys of the terminal must not reach the guard.
            .process_group(0);
        if is_quiet {
            command.stderr(Stdio::null());
        }
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let orders = orders.ok_or_else(|| io::Error::other("it has no pipe"))?;
        Ok(Self { child, orders })
    }

    /// From now on, the guard terminates this command if this process is killed.
    pub(super) fn watch(&mut self, command: Pid, shares_group: bool) {
        let pid = command.as_raw_nonzero();
        // If the guard was killed, the command continues unchanged.
        let _ = writeln!(self.orders, "{pid} {shares_group}");
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells the guard to end, and waits for its end.
    pub(super) fn over(&mut self) {
        let _ = writeln!(self.orders, "{OVER}");
        // The guard reads no further.
        let _ = self.child.wait();
    }
}

/// The file of this program, even if another file has taken its name since.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    match running.exists() {
        true => Ok(running),
        false => env::current_exe(),
    }
}

/// Runs the guard, if this process was started to be one.
pub(crate) fn run() -> Option<anyhow::Result<Exit>> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    let hold = arguments.next()?.into_string().ok()?;
    let grace = duration(arguments.next()?.to_str()?).ok()?;
    Some(keep_guard(&hold, grace))
}

fn keep_guard(hold: &str, grace: Duration) -> anyhow::Result<Exit> {
    // If that is not possible, the name is `exe`.
    let _ = fs::write("/proc/self/comm", PROGRAM);
    // A signal that terminates the whole group or service also terminates `reentry run`, and thereby ends the pipe.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    let mut command = None;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if line == OVER {
            return Ok(Exit::Success);
        }
        command = command.or_else(|| of_order(&line, hold));
    }
    let command = command.or_else(|| unknown(hold));
    if let Some(mut tree) = command {
        end(&mut tree, grace);
        // The last action, because a terminal may stop a background process that writes.
        let _ = writeln!(
            io::stderr(),
            "reentry: `reentry run` was killed, so its command was terminated"
        );
    }
    Ok(Exit::Success)
}

/// The processes of a command that was started by a process that could not report its id any more, if any.
fn unknown(hold: &str) -> Option<Tree> {
    let mut tree = Tree::of_hold(hold);
    let start = Instant::now();
    // Until its exec the command has the other end of the pipe. The kernel closes that end a moment before it shows the
    // environment.
    while tree.is_empty() {
        if start.elapsed() > EXEC {
            return None;
        }
        thread::sleep(POLL);
    }
    Some(tree)
}

fn of_order(line: &str, hold: &str) -> Option<Tree> {
    let (pid, shares_group) = line.split_once(' ')?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    Some(Tree::new(pid, shares_group.parse().ok()?, hold))
}

/// Sends SIGTERM to all processes, and after the grace period SIGKILL until nothing is left.
fn end(tree: &mut Tree, grace: Duration) {
    let start = Instant::now();
    tree.signal_all(Signal::TERM);
    tree.signal_all(Signal::CONT);
    while !tree.is_empty() {
        let late = start.elapsed().saturating_sub(grace);
        if late > Duration::from_secs(5) {
            return;
        }
        if !late.is_zero() {
            tree.signal_all(Signal::KILL);
        }
        thread::sleep(POLL);
    }
}
