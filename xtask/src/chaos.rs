//! `cargo xtask chaos`: faults of every kind on real servers, and the proof that nothing went wrong.

use crate::beside::Beside;
use crate::install;
use crate::run::{cargo, run};
use anyhow::Result;
use std::process::Command;

/// Installs the server where it is missing; `args` go to the harness.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::redis()?;
    run(harness().args(args))
}

/// What runs the harness, on a server that was installed before.
pub(crate) fn harness() -> Command {
    // Not a release build: what is measured is whether anything goes wrong, not how fast.
    cargo(&["run", "--quiet", "--package", "reentry-chaos", "--"])
}

/// Builds the harness, and starts it beside something else.
pub(crate) fn beside(args: &[&str]) -> Result<Beside> {
    install::redis()?;
    run(&mut cargo(&["test", "--package", "reentry-chaos"]))?;
    run(&mut cargo(&["build", "--package", "reentry-chaos"]))?;
    let mut command = harness();
    command.args(args);
    Ok(Beside::start(command))
}
