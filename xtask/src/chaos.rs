//! `cargo xtask chaos`: faults of every kind on real servers, and a check that nothing went wrong.

use crate::beside::Beside;
use crate::install;
use crate::run::{cargo, run};
use anyhow::Result;
use std::process::Command;

/// Installs a missing server, and runs the harness; `args` go to the harness.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::redis()?;
    run(harness().args(args))
}

/// The run of the harness, on a server that is installed.
pub(crate) fn harness() -> Command {
    // Not a release build: the question is whether anything goes wrong, not how fast the crate is.
    cargo(&["run", "--quiet", "--package", "reentry-chaos", "--"])
}

/// Builds the harness, and starts it beside another task.
pub(crate) fn beside(args: &[&str]) -> Result<Beside> {
    install::redis()?;
    run(&mut cargo(&["test", "--package", "reentry-chaos"]))?;
    run(&mut cargo(&["build", "--package", "reentry-chaos"]))?;
    let mut command = harness();
    command.args(args);
    Ok(Beside::start(command))
}
