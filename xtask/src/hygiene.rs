//! `cargo xtask hygiene`: the dependencies, and the spelling. Nothing is compiled.

use crate::run::{run, step};
use crate::tools::{CARGO_DENY, CARGO_SHEAR, TYPOS};
use anyhow::Result;

/// Runs all steps in turn, up to the first that fails.
pub(crate) fn check() -> Result<()> {
    step("spelling", || run(&mut TYPOS.command()?))?;
    step("licences, duplicates and sources of dependencies", || {
        let mut deny = CARGO_DENY.command()?;
        run(deny.args(["check", "licenses", "bans", "sources"]))
    })?;
    step("unused dependencies", || run(&mut CARGO_SHEAR.command()?))
}
