//! A program that runs while another task continues.

use crate::run::{closing, line};
use anyhow::{Result, anyhow, ensure};
use std::io;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

/// A program that runs at the same time as others: most of the time it waits.
#[derive(Debug)]
pub(crate) struct Beside {
    line: String,
    running: JoinHandle<io::Result<Output>>,
}

impl Beside {
    pub(crate) fn start(mut command: Command) -> Self {
        let line = line(&command);
        eprintln!("$ {line} &");
        let running = thread::spawn(move || command.output());
        Self { line, running }
    }

    /// Waits for the end, and shows the output. If the program fails, the error has its last lines.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { line, running } = self;
        let ended = running.join();
        let output = ended.map_err(|_| anyhow!("the thread that waits for it panicked"))??;
        let errors = String::from_utf8_lossy(&output.stderr);
        println!("$ {line}\n{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            eprintln!("{errors}");
        }
        let closing = closing(errors.lines());
        ensure!(
            output.status.success(),
            "`{line}` failed ({}){closing}",
            output.status
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failure_is_told_with_its_closing_lines() {
        let told = Beside::start(sh("echo x >&2; echo error: late >&2; exit 3")).finish();
        let told = told.unwrap_err().to_string();
        assert!(told.contains("exit status: 3)\nerror: late"), "{told}");
        assert!(Beside::start(sh("exit 0")).finish().is_ok());
    }
}
