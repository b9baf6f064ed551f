//! `cargo xtask release-checks`: what compiles the dependencies once more, or needs more of the network than a registry.
//!
//! A maintainer runs it before a release, and `cargo xtask ci` where the packaging has changed. Whatever is left out is
//! said at the end.

mod minimal;
mod package;
mod packaging;

pub(crate) use packaging::changed;

use crate::run::{cargo, clippy, root, run, step};
use crate::tools::{CARGO_DENY, CARGO_SEMVER_CHECKS, CARGO_SHEAR, folder};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The oldest compiler that is promised.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Why a step was left out.
type LeftOut = Option<&'static str>;

type Step = (&'static str, fn() -> Result<LeftOut>);

const STEPS: [Step; 8] = [
    ("smallest versions of dependencies", smallest_versions),
    ("tests of what is published", published),
    ("installing the command line", command_line),
    ("oldest compiler", oldest_compiler),
    ("benches beside peers", peers),
    ("fuzz targets", fuzz_targets),
    ("advisories", advisories),
    ("promises of the last release", last_release),
];

/// Every step in turn; the first that fails is the last.
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
    Ok(())
}

/// The lower bounds in Cargo.toml are true.
fn smallest_versions() -> Result<LeftOut> {
    let copy = minimal::copy(&folder()?.join("minimal"))?;
    // The flag is of the nightly cargo; this lets the stable one have it for one command.
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

/// Where there is nothing but the published crates, `cargo test` passes (the examples of the
/// documentation), and so does a newcomer's first command.
fn published() -> Result<LeftOut> {
    let unpacked = package::unpack(&folder()?.join("published"))?;
    // The folder of the workspace, so that the dependencies are built once.
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

/// As a user installs it: from the repository, and from the crate as it is published.
fn command_line() -> Result<LeftOut> {
    let unpacked = package::unpack(&folder()?.join("published"))?;
    let root = root();
    let target = folder()?;
    let target = target.parent().context("no target folder")?;
    // The lock file that was copied names more than the unpacked crates need.
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

/// Without it, clippy's lint `incompatible_msrv` knows what of the standard library is younger.
fn oldest_compiler() -> Result<LeftOut> {
    if run(Command::new("rustup").args(["run", OLDEST, "cargo", "--version"])).is_err() {
        let install = ["toolchain", "install", OLDEST, "--profile", "minimal"];
        if run(Command::new("rustup").args(install)).is_err() {
            return Ok(Some("that toolchain cannot be installed"));
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
        return Ok(Some("the advisory database cannot be reached"));
    }
    let known = ["check", "--disable-fetch", "advisories"];
    run(CARGO_DENY.command()?.args(known))?;
    Ok(None)
}

/// The public face keeps what the last tag promised.
fn last_release() -> Result<LeftOut> {
    let tag = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0"])
        .output()?;
    if !tag.status.success() {
        return Ok(Some("there is no tag yet to compare with"));
    }
    let tag = String::from_utf8(tag.stdout)?;
    let mut semver = CARGO_SEMVER_CHECKS.command()?;
    semver.args(["semver-checks", "--package", "reentry"]);
    run(semver.args(["--baseline-rev", tag.trim()]))?;
    Ok(None)
}

/// A workspace of its own: `cargo xtask ci` looks at nothing of it but its formatting.
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

/// They compile; running them takes a nightly compiler and time, see fuzz/README.md.
fn fuzz_targets() -> Result<LeftOut> {
    let what = ["check", "--manifest-path", "fuzz/Cargo.toml", "--bins"];
    let mut check = cargo(&what);
    check.env("RUSTFLAGS", "--cfg fuzzing -D warnings");
    check.env("CARGO_TARGET_DIR", folder()?.join("fuzz"));
    // Nothing is linked, so libFuzzer itself need not be built.
    check.env("CUSTOM_LIBFUZZER_PATH", "/none/libfuzzer.a");
    run(&mut check)?;
    Ok(None)
}
