//! `cargo xtask chaos`: faults of every kind on real servers, and a check that nothing went wrong.

use crate::beside::Beside;
use crate::install;
use crate::run::{cargo, run};
use anyhow::Result;
use std::env;
use std::process::Command;

/// Installs missing servers, and runs the harness. `args` are passed to the harness.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::for_chaos()?;
    run(harness()?.args(args))
}

/// Builds the harness, and returns its run, on a server that is installed.
pub(crate) fn harness() -> Result<Command> {
    // Not a release build: the question is whether anything goes wrong, not how fast the crate is. A test is built
    // together with it. Otherwise its dependencies would have other features, and would be built once more.
    const NAME: &str = "reentry-chaos";
    let build = ["build", "--quiet", "--workspace", "--all-features"];
    run(cargo(&build).args(["--test", "locked_ui", "--bin", NAME]))?;
    // It is in the same folder as the program of this task.
    Ok(Command::new(env::current_exe()?.with_file_name(NAME)))
}

/// Builds the harness, and starts it at the same time as another task.
pub(crate) fn beside(args: &[&str]) -> Result<Beside> {
    install::for_chaos()?;
    let mut command = harness()?;
    command.args(args);
    Ok(Beside::start(command))
}
