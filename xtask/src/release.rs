//! `cargo xtask release-checks`: the checks that compile the dependencies once more, or need more than a registry.
//!
//! A maintainer runs it before a release. `cargo xtask ci` runs it if the packaging has changed. The last lines name
//! the steps that were left out.

mod minimal;
mod package;
mod packaging;
mod passed;
pub(crate) mod ready;

pub(crate) use packaging::changed;

use crate::api;
use crate::run::{cargo, clippy, root, run, step};
use crate::tools::{CARGO_DENY, CARGO_SEMVER_CHECKS, CARGO_SHEAR, folder};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The oldest supported compiler.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The reason why a step was left out.
type LeftOut = Option<String>;

type Step = (&'static str, fn() -> Result<LeftOut>);

const STEPS: [Step; 11] = [
    ("smallest versions of dependencies", smallest_versions),
    ("tests of the published packages", published),
    ("installing the command line", command_line),
    ("the command line without subcommands", slim_command_line),
    ("unit tests without features", without_features),
    ("oldest compiler", oldest_compiler),
    ("benches of other locks", peers),
    ("fuzz targets", fuzz_targets),
    ("advisories", advisories),
    ("public surface", surface),
    ("promises of the last release", last_release),
];

/// Runs all steps in turn, up to the first that fails.
pub(crate) fn checks() -> Result<()> {
    let start = Instant::now();
    let mut left_out = Vec::new();
    for (name, work) in STEPS {
        if let Some(reason) = step(name, work)? {
            left_out.push(format!("NOT RUN: {name}: {reason}"));
        }
    }
    eprintln!("\nrelease checks passed in {:.1?}", start.elapsed());
    left_out.iter().for_each(|line| eprintln!("{line}"));
    passed::remember(&left_out)
}

/// Checks that the lower bounds in Cargo.toml are correct.
fn smallest_versions() -> Result<LeftOut> {
    let copy = minimal::copy(&folder()?.join("minimal"))?;
    // The flag belongs to the nightly cargo. This variable lets the stable one accept it for one command.
    let resolve = ["update", "--quiet", "-Z", "direct-minimal-versions"];
    run(in_copy(&copy, &resolve).env("RUSTC_BOOTSTRAP", "1"))?;
    for features in ["--all-features", "--no-default-features"] {
        run(&mut in_copy(
            &copy,
            &["check", "--package", "reentry", features],
        ))?;
    }
    Ok(None)
}

fn in_copy(copy: &Path, words: &[&str]) -> Command {
    let mut command = cargo(words);
    command.current_dir(copy);
    command.env("CARGO_TARGET_DIR", copy.join("target"));
    command
}

/// Checks the published crates by themselves: `cargo test` passes (the examples of the
/// documentation), and so does the first command of a new user.
fn published() -> Result<LeftOut> {
    let unpacked = package::unpack(&folder()?.join("published"))?;
    // The target folder of the workspace, so that the dependencies are built once.
    let target = folder()?;
    let target = target.parent().context("no target folder")?;
    for words in [
        &["test", "--quiet"][..],
        &["run", "--quiet", "--example", "recursive"],
    ] {
        let mut command = cargo(words);
        command.current_dir(&unpacked);
        run(command.env("CARGO_TARGET_DIR", target))?;
    }
    Ok(None)
}

/// Installs the command as a user does: from the repository, and from the published crate.
fn command_line() -> Result<LeftOut> {
    let unpacked = package::unpack(&folder()?.join("published"))?;
    let root = root();
    let target = folder()?;
    let target = target.parent().context("no target folder")?;
    // The copied lock file names more packages than the unpacked crates need.
    let mut prune = cargo(&["update", "--workspace", "--quiet"]);
    run(prune.current_dir(&unpacked))?;
    for (name, workspace, from) in [
        ("path", root.as_path(), "cli"),
        ("crate", unpacked.as_path(), "reentry-cli"),
    ] {
        let to = folder()?.join("installed").join(name);
        let mut install = cargo(&["install", "--debug", "--locked", "--force", "--path", from]);
        install.current_dir(workspace).arg("--root").arg(&to);
        run(install.env("CARGO_TARGET_DIR", target))?;
        run(Command::new(to.join("bin/reentry")).arg("--version"))?;
    }
    Ok(None)
}

/// Checks that the command line compiles without its features and without warnings. For small containers, users leave
/// out subcommands.
fn slim_command_line() -> Result<LeftOut> {
    let check = ["check", "--package", "reentry-cli", "--no-default-features"];
    for features in [&[][..], &["--features", "tls"]] {
        let mut check = cargo(&check);
        check.args(features).env("RUSTFLAGS", "-D warnings");
        run(check.env("CARGO_TARGET_DIR", folder()?.join("slim")))?;
    }
    Ok(None)
}

/// Runs the unit tests of the crate without its features, with the replacements for these features. The model and the
/// simulation are not affected.
fn without_features() -> Result<LeftOut> {
    let mut tests = cargo(&["test", "--no-default-features"]);
    tests.args(["--package", "reentry-tests", "--test", "unit", "--"]);
    run(tests.args(["--skip", "model", "--skip", "simulation"]))?;
    Ok(None)
}

/// Checks the oldest compiler. If this step is left out, clippy's lint `incompatible_msrv` still knows which parts of
/// the standard library are newer.
fn oldest_compiler() -> Result<LeftOut> {
    if run(Command::new("rustup").args(["run", OLDEST, "cargo", "--version"])).is_err() {
        let install = ["toolchain", "install", OLDEST, "--profile", "minimal"];
        if run(Command::new("rustup").args(install)).is_err() {
            return Ok(Some("cannot install that toolchain".to_owned()));
        }
    }
    for features in ["--all-features", "--no-default-features"] {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", OLDEST, "cargo", "check", "--package", "reentry"]);
        let target = folder()?.join("oldest");
        run(rustup.arg(features).env("CARGO_TARGET_DIR", target))?;
    }
    Ok(None)
}

fn advisories() -> Result<LeftOut> {
    if run(CARGO_DENY.command()?.args(["fetch", "db"])).is_err() {
        return Ok(Some("the advisory database is unreachable".to_owned()));
    }
    let known = ["check", "--disable-fetch", "advisories"];
    run(CARGO_DENY.command()?.args(known))?;
    Ok(None)
}

/// Checks that the public surface matches `docs/api.txt`, so that the release shows what has changed.
fn surface() -> Result<LeftOut> {
    api::check(false)
}

/// Checks that the public surface is compatible with the last tag.
fn last_release() -> Result<LeftOut> {
    let tag = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0"])
        .output()?;
    if !tag.status.success() {
        return Ok(Some("there is no earlier tag to compare with".to_owned()));
    }
    let tag = String::from_utf8(tag.stdout)?;
    let mut semver = CARGO_SEMVER_CHECKS.command()?;
    semver.args(["semver-checks", "--package", "reentry"]);
    run(semver.args(["--baseline-rev", tag.trim()]))?;
    Ok(None)
}

/// Checks the workspace of the peers. `cargo xtask ci` checks only its formatting.
fn peers() -> Result<LeftOut> {
    clippy(&[
        "--manifest-path",
        "benches/peers/Cargo.toml",
        "--all-targets",
    ])?;
    run(CARGO_SHEAR
        .command()?
        .current_dir(root().join("benches/peers")))?;
    Ok(None)
}

/// Checks that the fuzz targets compile. Running them needs a nightly compiler and time, see fuzz/README.md.
fn fuzz_targets() -> Result<LeftOut> {
    let what = ["check", "--manifest-path", "fuzz/Cargo.toml", "--bins"];
    let mut check = cargo(&what);
    check.env("RUSTFLAGS", "--cfg fuzzing -D warnings");
    check.env("CARGO_TARGET_DIR", folder()?.join("fuzz"));
    // Nothing is linked, so libFuzzer itself is not built.
    check.env("CUSTOM_LIBFUZZER_PATH", "/none/libfuzzer.a");
    run(&mut check)?;
    Ok(None)
}
