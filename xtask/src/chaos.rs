//! `cargo xtask chaos`: faults of every kind on real servers, and the proof that nothing went wrong.

use crate::install;
use crate::run::{cargo, run};
use anyhow::{Result, anyhow, ensure};
use std::io;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

/// Installs the server where it is missing; `args` go to the harness.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::redis_server()?;
    run(harness().args(args))
}

/// What runs the harness, on a server that was installed before.
pub(crate) fn harness() -> Command {
    // Not a release build: what is measured is whether anything goes wrong, not how fast.
    cargo(&["run", "--quiet", "--package", "reentry-chaos", "--"])
}

/// A run that goes on while something else is done: most of the time it waits.
#[derive(Debug)]
pub(crate) struct Beside(JoinHandle<io::Result<Output>>);

impl Beside {
    /// Builds the harness, and starts it.
    pub(crate) fn start(args: &[&str]) -> Result<Self> {
        install::redis_server()?;
        run(&mut cargo(&["test", "--package", "reentry-chaos"]))?;
        run(&mut cargo(&["build", "--package", "reentry-chaos"]))?;
        let mut command = harness();
        command.args(args);
        Ok(Self(thread::spawn(move || command.output())))
    }

    /// Waits for its end, and shows what it has said.
    pub(crate) fn finish(self) -> Result<()> {
        let ended = self.0.join();
        let output = ended.map_err(|_| anyhow!("the thread that waits for it has panicked"))??;
        println!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        ensure!(output.status.success(), "chaos failed ({})", output.status);
        Ok(())
    }
}
