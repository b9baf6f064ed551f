//! `cargo xtask hygiene`: what is depended on, and how it is all spelt. Nothing is compiled.

use crate::run::{run, step};
use crate::tools::{CARGO_DENY, CARGO_SHEAR, TYPOS};
use anyhow::Result;

/// Every step in turn; the first that fails is the last.
pub(crate) fn check() -> Result<()> {
    step("spelling", || run(&mut TYPOS.command()?))?;
    step("licences, duplicates and sources of dependencies", || {
        let mut deny = CARGO_DENY.command()?;
        run(deny.args(["check", "licenses", "bans", "sources"]))
    })?;
    step("unused dependencies", || run(&mut CARGO_SHEAR.command()?))
}
