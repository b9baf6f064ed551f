//! `cargo xtask ci`: what must pass before a change lands.

use crate::run::{cargo, run, step};
use crate::{chaos, hygiene, test};
use anyhow::{Context, Result};
use std::time::Instant;

/// A workspace of its own.
const PEERS: &str = "benches/peers/Cargo.toml";

/// Every step in turn; the first that fails is the last.
pub(crate) fn all() -> Result<()> {
    let start = Instant::now();
    step("formatting", || {
        component("rustfmt", &["fmt", "--version"])?;
        run(&mut cargo(&["fmt", "--all", "--check"]))?;
        run(&mut cargo(&["fmt", "--check", "--manifest-path", PEERS]))
    })?;
    let two_minutes = step("chaos begins", || {
        chaos::beside(&["--minutes", "2", "--seed", "1"])
    })?;
    step("lints, all features", || {
        component("clippy", &["clippy", "--version"])?;
        clippy(&["--all-targets", "--all-features"])?;
        // Those that no other run has are no part of all targets.
        let by_name = ["--test", "clock_steps", "--test", "topologies"];
        clippy(
            &[
                &["--package", "reentry-tests", "--all-features"],
                &by_name[..],
            ]
            .concat(),
        )
    })?;
    step("lints, few features", || {
        let bare = ["--package", "reentry", "--no-default-features"];
        clippy(&bare)?;
        clippy(&[&bare[..], &["--features", "metrics"]].concat())
    })?;
    // No default members of the workspace, so that the features of their dependencies are not ours.
    step(
        "lints, command line, benches beside peers, and chaos",
        || {
            clippy(&[
                "--package",
                "reentry-cli",
                "--all-targets",
                "--all-features",
            ])?;
            clippy(&["--manifest-path", PEERS, "--all-targets"])?;
            clippy(&["--package", "reentry-chaos", "--all-targets"])
        },
    )?;
    hygiene::check(false)?;
    step("documentation", || {
        let bare = ["--package", "reentry", "--no-default-features"];
        for features in [&bare[..], &["--all-features"]] {
            let mut command = cargo(&["doc", "--no-deps"]);
            run(command.args(features).env("RUSTDOCFLAGS", "-Dwarnings"))?;
        }
        Ok(())
    })?;
    step("chaos, of which two minutes are over", || {
        two_minutes.finish()
    })?;
    step("tests", || test::all(&[]))?;
    eprintln!("\nall passed in {:.1?}", start.elapsed());
    Ok(())
}

fn clippy(what: &[&str]) -> Result<()> {
    let mut command = cargo(&["clippy"]);
    run(command.args(what).args(["--", "-D", "warnings"]))
}

fn component(name: &str, version: &[&str]) -> Result<()> {
    let advice = || format!("if it is missing, run `rustup component add {name}`");
    run(&mut cargo(version)).with_context(advice)
}
