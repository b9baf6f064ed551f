//! `cargo xtask test`: all tests, on a machine that needs only Rust.

use crate::beside::Beside;
use crate::install;
use crate::run::{all_of, cargo, installed, run, run_to_the_end};
use anyhow::Result;
use std::num::NonZero;
use std::process::Command;
use std::thread;

/// The variables with the number of tests that run at a time.
const THREADS: &str = "RUST_TEST_THREADS";
const THREADS_OF_NEXTEST: &str = "NEXTEST_TEST_THREADS";

/// Installs what the tests need, then runs them all; `args` go to the test binaries.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::servers()?;
    // All are built first, so that none waits for the build of another. The run reports a failed build.
    let beside = [topologies, command_line].map(|tests| {
        let _ = run(tests(&[]).arg("--no-run"));
        tests
    });
    let beside = beside.map(|tests| Beside::start(tests(args)));
    let others = run_to_the_end(&mut commands(args));
    all_of([others].into_iter().chain(beside.map(Beside::finish)))
}

/// The run of the tests on several servers. These tests wait most of the time.
fn topologies(args: &[String]) -> Command {
    let mut command = cargo(&["test", "--all-features", "--no-fail-fast"]);
    command.args(["--package", "reentry-tests", "--test", "topologies"]);
    spread(&mut command);
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}

/// The run of the command line's tests, which wait for processes. The package is no default member, so that the
/// features of its dependencies are not those of the crate.
fn command_line(args: &[String]) -> Command {
    let mut command = cargo(&["test", "--all-features", "--no-fail-fast"]);
    command.args(["--package", "reentry-cli"]);
    spread(&mut command);
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}

/// The run of the unit tests of the crate without its features, with the replacements for these features. The model and
/// the simulation see no difference.
fn without_features(args: &[String]) -> Command {
    const SKIPPED: [&str; 4] = ["--skip", "model", "--skip", "simulation"];
    let mut command = cargo(&["test", "--no-default-features", "--no-fail-fast"]);
    command.args(["--package", "reentry-tests", "--test", "unit"]);
    spread(&mut command);
    command.arg("--").args(SKIPPED).args(args);
    command
}

/// The runs of all other tests. No run stops at the first failure.
fn commands(args: &[String]) -> [Command; 3] {
    // Not --all-targets, which would run the benches as tests. `--tests` includes the tests of a library and of a
    // program.
    // `--lib` would also build the library whose tests are elsewhere.
    const BINARIES: [&str; 2] = ["--tests", "--examples"];
    // Each package by name, since `--doc` without names also runs the doc tests that a crate has switched off: the
    // examples of the attribute need `reentry`, which runs them. `reentry-tests` has none, but with it the
    // dependencies have the features with which they were built before.
    const EXAMPLES: [&str; 7] = [
        "--doc",
        "--package",
        "reentry",
        "--package",
        "reentry-services",
        "--package",
        "reentry-tests",
    ];
    let [tests, examples] = [&BINARIES[..], &EXAMPLES].map(|targets| {
        let mut command = cargo(&["test", "--all-features", "--no-fail-fast"]);
        command.args(targets);
        spread(&mut command);
        if !args.is_empty() {
            command.arg("--").args(args);
        }
        command
    });
    [tests, without_features(args), examples]
}

/// A run of some tests, with all features. It uses cargo-nextest if that is installed, with one process for each test,
/// and otherwise cargo. `selection` says which targets, and after `--` which tests.
pub(crate) fn some(selection: &[&str]) -> Command {
    let runner: &[&str] = if installed("cargo-nextest") {
        &["nextest", "run"]
    } else {
        &["test"]
    };
    let mut command = cargo(runner);
    command.args(["--all-features", "--no-fail-fast"]);
    spread(command.args(selection));
    command
}

/// Sets the number of tests that run at a time: most of them wait for a server or a lease most of the time.
fn spread(command: &mut Command) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    for name in [THREADS, THREADS_OF_NEXTEST] {
        if std::env::var_os(name).is_none() {
            command.env(name, (2 * cores).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_keeps_other_tests_from_running() {
        let args = ["--nocapture".to_owned()];
        for command in commands(&args) {
            let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
            let separator = words.iter().position(|word| word == "--");
            let flag = words.iter().position(|word| word == "--no-fail-fast");
            assert!(flag.is_some() && flag < separator, "{words:?}");
            assert!(words.ends_with(&["--nocapture".into()]), "{words:?}");
        }
    }
}
