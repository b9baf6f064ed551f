//! `cargo xtask ci`: the checks that must pass before a change lands.

use crate::run::{all_of, cargo, clippy, run, step};
use crate::{api, chaos, hygiene, release, test};
use anyhow::{Context, Result};
use std::time::Instant;

/// Runs all steps in turn, even if one fails. The error lists the failures of all steps.
pub(crate) fn all() -> Result<()> {
    let start = Instant::now();
    let formatting = step("formatting", || {
        component("rustfmt", &["fmt", "--version"])?;
        run(&mut cargo(&["fmt", "--all", "--check"]))?;
        let peers = ["--manifest-path", "benches/peers/Cargo.toml"];
        run(cargo(&["fmt", "--check"]).args(peers))
    });
    // The tests are run last, and report a failed build.
    let _ = step("building the tests", test::build);
    let one_minute = step("the start of chaos", || {
        chaos::beside(&["--minutes", "1", "--seed", "1"])
    });
    all_of([
        formatting,
        step("lints", lint),
        hygiene::check(),
        step("documentation", document),
        step("public surface", surface),
        step("the end of chaos", || one_minute?.finish()),
        step("tests", || test::all(&[])),
    ])?;
    if release::changed() {
        eprintln!("\nthe packaging has changed, or the last landed state is unknown");
        release::checks()?;
    }
    eprintln!("\nall passed in {:.1?}", start.elapsed());
    Ok(())
}

fn lint() -> Result<()> {
    component("clippy", &["clippy", "--version"])?;
    // All members at once, so that each dependency is checked once. The build of a member's tests shows whether the
    // member names all features that it needs.
    let all = ["--workspace", "--all-features"];
    clippy(&[&all[..], &["--all-targets"]].concat())?;
    // The tests with `test = false` are not among all targets, which also exclude any target that is named.
    let apart = ["it", "topologies", "seen", "command_line", "clock_steps"];
    let apart = apart.iter().flat_map(|name| ["--test", name]);
    clippy(&all.into_iter().chain(apart).collect::<Vec<_>>())
}

fn document() -> Result<()> {
    // The members and features of the lints, so that no dependency is checked again.
    let all = ["doc", "--no-deps", "--workspace", "--lib", "--all-features"];
    run(cargo(&all).env("RUSTDOCFLAGS", "-Dwarnings"))
}

fn surface() -> Result<()> {
    if let Some(reason) = api::check(false)? {
        eprintln!("NOT RUN: {reason}");
    }
    Ok(())
}

fn component(name: &str, version: &[&str]) -> Result<()> {
    let advice = || format!("if it is missing, run `rustup component add {name}`");
    run(&mut cargo(version)).with_context(advice)
}
