//! The process that ends the command if `reentry run` is killed.
//!
//! A process that gets SIGKILL can do nothing any more, and the lease of its lock ends soon after. Its guard, which
//! reads from a pipe whose other end only it has, sees the end of that pipe, and ends the command with all its
//! processes, as after a loss. The kernel's PR_SET_PDEATHSIG would reach the command alone and none of its children, only on
//! Linux, and would leave it no time.

use std::{
    env, fs,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{enclosing, tree::Tree};
use crate::{args::duration, exit::Exit};

/// The first argument of the guard. It is no subcommand, so that help and completions do not name it.
const NAME: &str = "guard-of-run";

/// What ps(1) shows of it. It is started by another name of its file.
const PROGRAM: &str = "reentry";

/// What is written to the guard when it has nothing more to do.
const OVER: &str = "over";

/// How often processes are looked for.
const POLL: Duration = Duration::from_millis(20);

/// The longest that an exec takes from the end of the pipe on.
const EXEC: Duration = Duration::from_secs(1);

/// The guard, as `reentry run` sees it.
pub(super) struct Guard {
    child: Child,
    orders: ChildStdin,
}

impl Guard {
    pub(super) fn start(hold: &str, grace: Duration) -> io::Result<Self> {
        let mut command = Command::new(this_program()?);
        command
            .arg0(PROGRAM)
            .arg(NAME)
            .arg(hold)
            .arg(grace.as_secs_f64().to_string())
            .env_remove(enclosing::VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Keys of the terminal are not for it.
            .process_group(0);
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let orders = orders.ok_or_else(|| io::Error::other("it has no pipe"))?;
        Ok(Self { child, orders })
    }

    /// From now on it ends this command if this process is killed.
    pub(super) fn watch(&mut self, command: Pid, shares_group: bool) {
        let pid = command.as_raw_nonzero();
        // A guard that was killed leaves the command as it is.
        let _ = writeln!(self.orders, "{pid} {shares_group}");
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it, and waits for its end.
    pub(super) fn over(&mut self) {
        let _ = writeln!(self.orders, "{OVER}");
        // It reads no further.
        let _ = self.child.wait();
    }
}

/// The file of this program, also where another one has taken its name since.
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
    // Where that is not possible it is called `exe`.
    let _ = fs::write("/proc/self/comm", PROGRAM);
    // Who ends a whole group or service, ends `reentry run` too, and with it the pipe.
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
        // Last, since a terminal may stop a process in the background that writes.
        let _ = writeln!(
            io::stderr(),
            "reentry: `reentry run` was killed, so its command was ended"
        );
    }
    Ok(Exit::Success)
}

/// The processes of a command that was started, if one was, by a process that could not say its id any more.
fn unknown(hold: &str) -> Option<Tree> {
    let mut tree = Tree::of_hold(hold);
    let start = Instant::now();
    // Up to its exec it has the other end of the pipe. The kernel closes that a moment before it shows the environment.
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

/// SIGTERM to all, and after the grace SIGKILL until nothing is left.
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
