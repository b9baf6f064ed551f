//! `cargo xtask test`: every test there is, on a machine that needs to have nothing but Rust.

use crate::install;
use crate::run::{cargo, run};
use anyhow::Result;

/// Installs what the tests need, then runs them all; `args` go to the test binaries.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::redis_server()?;
    // Not --all-targets: that would run the benches as tests.
    const BINARIES: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];
    for targets in [&BINARIES[..], &["--doc"]] {
        let mut command = cargo(&["test", "--all-features"]);
        command.args(targets);
        if !args.is_empty() {
            command.arg("--").args(args);
        }
        run(&mut command)?;
    }
    Ok(())
}
