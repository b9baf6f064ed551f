//! Starts the program for a test.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use reentry::Locks;
use rexpect::session::{PtySession, spawn_command};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_blocking;

use crate::support::process::Process;
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually, within};

/// The program with these words, and without the variables of the test environment that affect it.
pub(crate) fn reentry(words: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_reentry");
    let mut command = if cfg!(target_os = "linux") {
        // If the tests run in the background, they inherit ignored signals: SIGINT from a shell, SIGHUP from nohup(1).
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,QUIT,HUP", program]);
        command
    } else {
        Command::new(program)
    };
    command.args(words);
    for name in [
        "REDIS_URL",
        "REENTRY_PASSWORD_FILE",
        "NO_COLOR",
        "CLICOLOR_FORCE",
        "REENTRY_INSIDE",
    ] {
        command.env_remove(name);
    }
    command
}

/// The command for these servers. Its timeouts are longer than those of a user, in case the machine is busy.
pub(crate) fn reentry_for(url: &str, words: &[&str]) -> Command {
    let mut command = reentry(words);
    command.env("REDIS_URL", url);
    for name in ["REENTRY_CONNECT_TIMEOUT", "REENTRY_RESPONSE_TIMEOUT"] {
        command.env(name, DEADLINE.as_secs().to_string());
    }
    command
}

/// The command for one server.
pub(crate) fn reentry_at(server: &RedisServer, words: &[&str]) -> Command {
    reentry_for(&server.url(), words)
}

/// The locks on this server, for a test, with the same timeouts.
pub(crate) async fn locks_at(server: &RedisServer) -> Locks {
    let builder = Locks::builder(server.url());
    let builder = builder.connect_timeout(DEADLINE).response_timeout(DEADLINE);
    builder.build().await.expect("a server that answers")
}

/// `reentry run` for this server, with these options and a script for `sh`.
pub(crate) fn script_at(server: &RedisServer, options: &[&str], script: &str) -> Command {
    let mut command = reentry_at(server, &["run"]);
    command.args(options);
    command.args(["--", "sh", "-c", script]);
    command
}

/// The output of a program, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs it to its end with these words.
pub(crate) fn ended(words: &[&str]) -> Ended {
    ended_of(&mut reentry(words))
}

pub(crate) fn ended_of(command: &mut Command) -> Ended {
    let output = command.output().expect("the program to start");
    output.into()
}

/// Waits for the end of a command, without blocking this process.
pub(crate) async fn end_of(mut command: Command) -> Ended {
    let what = format!("{command:?} ends");
    let running = spawn_blocking(move || command.output().expect("the program to start"));
    let output = within(DEADLINE, &what, running).await;
    output.expect("no panic").into()
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// The script, for which a command is `"$0" "$@"`.
pub(crate) fn within_script(script: &str, command: &Command) -> Command {
    behind(&["sh", "-c", script], command)
}

/// A command that starts another command, which is appended to its words.
pub(crate) fn behind(words: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(command.get_program());
    with_variables(outer.args(command.get_args()), command);
    outer
}

/// Sets and removes the variables that another command sets and removes.
pub(crate) fn with_variables<'c>(command: &'c mut Command, like: &Command) -> &'c mut Command {
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// A command that prints its errors on its standard output.
pub(crate) fn with_errors(command: &Command) -> Command {
    within_script("exec \"$0\" \"$@\" 2>&1", command)
}

pub(crate) fn at_terminal(command: Command) -> PtySession {
    let patience = u64::try_from(DEADLINE.as_millis()).expect("some seconds");
    spawn_command(command, Some(patience)).expect("a terminal")
}

/// Waits until this number of processes waits for a lock.
pub(crate) async fn until_waiting(locks: &Locks, key: &str, count: u64) {
    let waits = async || {
        let info = locks.admin().inspect(key).await.expect("an answer");
        info.map_or(0, |info| info.waiting_processes) == count
    };
    eventually(DEADLINE, "so many processes wait", waits).await;
}

/// A program that runs, and the lines of its standard output.
pub(crate) struct Running {
    process: Process,
    lines: UnboundedReceiver<String>,
    pub(crate) input: Option<ChildStdin>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, None).expect("the program to start");
        let output = process.take_stdout().expect("a piped output");
        let input = process.take_stdin();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            lines,
            input,
        }
    }

    /// Waits for this line; those before it are skipped.
    pub(crate) async fn says(&mut self, expected: &str) {
        within(DEADLINE, &format!("it says {expected:?}"), async {
            while let Some(line) = self.lines.recv().await {
                if line == expected {
                    return;
                }
            }
            panic!("it ended before it said {expected:?}");
        })
        .await;
    }

    /// The next line.
    pub(crate) async fn line(&mut self) -> String {
        let line = within(DEADLINE, "it says a line", self.lines.recv()).await;
        line.expect("it ended before it said a line")
    }

    /// The lines up to the end of all processes that have its standard output.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        within(DEADLINE, "all that write its output end", async {
            let mut rest = Vec::new();
            while let Some(line) = self.lines.recv().await {
                rest.push(line);
            }
            rest
        })
        .await
    }

    pub(crate) async fn end(&mut self) -> ExitStatus {
        within(DEADLINE, "it ends", async {
            loop {
                match self.process.ended() {
                    Some(status) => return status,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        })
        .await
    }

    pub(crate) async fn code(&mut self) -> Option<i32> {
        self.end().await.code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("an id");
        kill_process(pid, signal).expect("a signal to our child");
    }

    /// Sends SIGKILL only to this process.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}
