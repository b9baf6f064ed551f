//! A part of a test that runs in a separate process, so that it can be killed or stopped.
//!
//! The parent starts its own test binary again, to run one test: the *role*. As an ordinary test, that role finds no
//! [`Role`] and returns immediately.
//!
//! ```ignore
//! #[tokio::test]
//! async fn child_that_holds() {
//!     let Some(role) = child::role("child_that_holds") else { return };
//!     let locks = patient_at(role.var("REDIS_URL")).build().await.unwrap();
//!     // ... inside the body:
//!     role.say("holding");
//!     pending::<()>().await;
//! }
//!
//! #[tokio::test]
//! async fn a_killed_holder_blocks_no_longer_than_its_lease() {
//!     let server = RedisServer::start().await;
//!     let variables = [("REDIS_URL", &*server.url())];
//!     let mut holder = Child::spawn(module_path!(), "child_that_holds", &variables);
//!     holder.wait_for_line("holding").await;
//!     holder.sigkill();
//! }
//! ```

use super::process::Process;
use super::wait::{DEADLINE, within};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const ROLE: &str = "REENTRY_TEST_ROLE";

/// The prefix that distinguishes the lines of a role from what the test harness prints on the same output.
const MARK: &str = "@@ ";

/// A role running in another process. Killed on drop, and when the test process dies.
#[derive(Debug)]
pub struct Child {
    role: String,
    process: Process,
    orders: ChildStdin,
    said: UnboundedReceiver<String>,
}

impl Child {
    /// Starts this test binary again for the test named `role`, with these variables set.
    ///
    /// `module` is the `module_path!()` of that test. What the role prints on standard error appears with the parent's
    /// output.
    pub fn spawn(module: &str, role: &str, variables: &[(&str, &str)]) -> Child {
        // The test names of the harness do not include the binary, but a module path begins with it.
        let test = match module.split_once("::") {
            Some((_, module)) => format!("{module}::{role}"),
            None => role.to_owned(),
        };
        let myself = std::env::current_exe().expect("the test binary's own path");
        let mut command = Command::new(myself);
        command
            .args(["--exact", &test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .envs(variables.iter().copied());
        Child::run(role, &mut command)
    }

    /// Starts a program that is not a role, and reads its output like that of a role.
    pub fn run(name: &str, command: &mut Command) -> Child {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, None).expect("the program to start");
        let orders = process.take_stdin().expect("a piped input");
        let output = process.take_stdout().expect("a piped output");
        let (sender, said) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let words = line.split_once(MARK).map_or(&*line, |(_, words)| words);
                if sender.send(words.to_owned()).is_err() {
                    return;
                }
            }
        });
        Child {
            role: name.to_owned(),
            process,
            orders,
            said,
        }
    }

    /// The next line that the role says or prints with this prefix. Returns the rest of the line, trimmed.
    ///
    /// Earlier lines are skipped permanently.
    ///
    /// # Panics
    ///
    /// Panics if the role ends first or the deadline passes.
    pub async fn wait_for_line(&mut self, prefix: &str) -> String {
        let Child { role, said, .. } = self;
        let what = format!("{role} says {prefix:?}");
        let line = within(DEADLINE, &what, async {
            while let Some(line) = said.recv().await {
                if let Some(rest) = line.strip_prefix(prefix) {
                    return Some(rest.trim().to_owned());
                }
            }
            None
        });
        line.await.unwrap_or_else(|| {
            let Child { role, process, .. } = self;
            process.kill();
            panic!("{role} ended before it said {prefix:?} (is there a test of that name?)")
        })
    }

    /// The next line that the role says or prints; `None` after it has ended.
    ///
    /// # Panics
    ///
    /// Panics if the deadline passes.
    pub async fn next_line(&mut self) -> Option<String> {
        let Child { role, said, .. } = self;
        within(DEADLINE, &format!("{role} says more"), said.recv()).await
    }

    /// Sends a line to the input of the program.
    pub fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("a program that listens");
    }

    /// Waits for the end of the role. Returns whether it was successful.
    pub async fn finished(&mut self) -> bool {
        let Child {
            role,
            said,
            process,
            ..
        } = self;
        within(DEADLINE, &format!("{role} ends"), async {
            while said.recv().await.is_some() {}
            loop {
                if let Some(status) = process.ended() {
                    return status.success();
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        })
        .await
    }

    /// Sends SIGKILL, and waits until the role is gone.
    pub fn sigkill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGINT to all processes of the role's group, as Ctrl-C in a terminal does. The role leads its group.
    pub fn ctrl_c(&self) {
        self.process.interrupt_group();
    }

    /// Sends SIGSTOP, and waits until it has taken effect.
    pub fn sigstop(&self) {
        self.process.pause();
    }

    /// Sends SIGCONT.
    pub fn sigcont(&self) {
        self.process.resume();
    }
}

/// The side of a role: its words and its variables.
#[derive(Debug)]
pub struct Role(());

/// The role, if this process was started to run `name`; `None` in an ordinary test run.
pub fn role(name: &str) -> Option<Role> {
    (std::env::var(ROLE).ok()? == name).then_some(Role(()))
}

impl Role {
    /// Says a line to the parent. It bypasses the capture of output, and is flushed immediately.
    pub fn say(&self, words: impl Display) {
        let mut output = std::io::stdout().lock();
        writeln!(output, "\n{MARK}{words}").expect("a parent that listens");
        output.flush().expect("a parent that listens");
    }

    /// A variable that the parent has set.
    pub fn var(&self, name: &str) -> String {
        std::env::var(name).unwrap_or_else(|_| panic!("the parent sets {name}"))
    }
}
