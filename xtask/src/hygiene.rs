//! `cargo xtask hygiene`: what is depended on, with which versions, how it is all spelt, and whether what
//! is published passes its tests.
//!
//! What needs long, or more of the network than a registry, runs with `--all` alone. Whatever is left
//! out is said at the end.

mod minimal;
mod package;
mod tools;

use crate::run::{self, cargo, run};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tools::{CARGO_DENY, CARGO_SEMVER_CHECKS, CARGO_SHEAR, TYPOS, folder};

/// The oldest compiler that is promised.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Why a step was left out.
type LeftOut = Option<&'static str>;

/// Every step in turn; the first that fails is the last.
pub(crate) fn check(everything: bool) -> Result<()> {
    let start = Instant::now();
    let mut left_out = Vec::new();
    let mut step = |name: &'static str, work: &dyn Fn() -> Result<LeftOut>| {
        let reason = run::step(name, || {
            work().inspect(|reason| {
                reason
                    .iter()
                    .for_each(|reason| eprintln!("NOT RUN: {reason}"));
            })
        })?;
        left_out.extend(reason.map(|reason| (name, reason)));
        anyhow::Ok(())
    };
    let with_all = |work: fn() -> Result<LeftOut>| {
        move || {
            if everything {
                work()
            } else {
                Ok(Some("it runs with `--all`"))
            }
        }
    };
    step("spelling", &spelling)?;
    step(
        "licences, duplicates and sources of dependencies",
        &dependencies,
    )?;
    step("unused dependencies", &unused)?;
    step("smallest versions of dependencies", &smallest_versions)?;
    step("tests of what is published", &published)?;
    step("installing the command line", &with_all(command_line))?;
    step("oldest compiler", &|| oldest_compiler(everything))?;
    step("advisories", &with_all(advisories))?;
    step("promises of the last release", &with_all(last_release))?;
    step("fuzz targets", &with_all(fuzz_targets))?;
    eprintln!("\nhygiene passed in {:.1?}", start.elapsed());
    for (name, reason) in left_out {
        eprintln!("NOT RUN: {name}: {reason}");
    }
    Ok(())
}

fn spelling() -> Result<LeftOut> {
    run(&mut TYPOS.command()?)?;
    Ok(None)
}

fn dependencies() -> Result<LeftOut> {
    let mut deny = CARGO_DENY.command()?;
    run(deny.args(["check", "licenses", "bans", "sources"]))?;
    Ok(None)
}

fn unused() -> Result<LeftOut> {
    run(&mut CARGO_SHEAR.command()?)?;
    Ok(None)
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
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let target = folder()?;
    let target = target.parent().context("no target folder")?;
    // The lock file that was copied names more than the unpacked crates need.
    let mut prune = cargo(&["update", "--workspace", "--quiet"]);
    run(prune.current_dir(&unpacked))?;
    for (name, workspace, from) in [
        ("path", root, "cli"),
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
fn oldest_compiler(everything: bool) -> Result<LeftOut> {
    if run(Command::new("rustup").args(["run", OLDEST, "cargo", "--version"])).is_err() {
        if !everything {
            return Ok(Some("its toolchain is missing, which `--all` installs"));
        }
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
