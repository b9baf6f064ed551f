//! `cargo xtask chaos`: faults of every kind on a real server, and the proof that nothing went wrong.

use crate::install;
use crate::run::{cargo, run};
use anyhow::Result;

/// Installs the server where it is missing; `args` go to the harness.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::redis_server()?;
    // Not a release build: what is measured is whether anything goes wrong, not how fast.
    let mut command = cargo(&["run", "--quiet", "--package", "reentry-chaos", "--"]);
    run(command.args(args))
}
