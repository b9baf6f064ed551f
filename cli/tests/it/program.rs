//! How a test starts the program.

use std::process::{Command, Output};

/// The program with these words, and without what the environment of the tests would say to it.
pub(crate) fn reentry(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reentry"));
    command.args(words);
    for name in ["REDIS_URL", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

/// What it said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs it to its end.
pub(crate) fn ended(words: &[&str]) -> Ended {
    let output = reentry(words).output().expect("the program to start");
    output.into()
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}
