//! `cargo xtask test`: all tests, on a machine with only Rust installed.

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

/// Installs what the tests need, and then runs all tests. `args` are passed to the test binaries.
pub(crate) fn all(args: &[String]) -> Result<()> {
    install::for_tests()?;
    // All tests are built first, so that no run waits for the build of another. The runs report a failed build.
    let _ = build();
    let beside = BESIDE.map(|tests| {
        let command = tests_of(&["--test", tests]);
        Beside::start(passing(command, 4, args))
    });
    let others = run_to_the_end(&mut others(args));
    all_of([others].into_iter().chain(beside.map(Beside::finish)))
}

/// Builds every test.
pub(crate) fn build() -> Result<()> {
    let beside = BESIDE.iter().flat_map(|tests| ["--test", tests]);
    let all: Vec<_> = OTHERS.into_iter().chain(beside).collect();
    run(tests_of(&all).arg("--no-run"))
}

/// The tests on servers, and those of the command line. They wait most of the time.
const BESIDE: [&str; 4] = ["it", "topologies", "seen", "command_line"];

/// All others. Not `--all-targets`, which would run the benches as tests. `--tests` includes the tests of a library and of
/// a program. `--lib` would also build the library whose tests are elsewhere.
const OTHERS: [&str; 2] = ["--tests", "--examples"];

/// The runs of all others, and of the examples in the documentation.
fn others(args: &[String]) -> [Command; 2] {
    // Each package is named, because `--doc` without names also runs the doc tests that a crate has disabled. The
    // examples of the attribute need `reentry`, which runs them. Most of these packages have no doc tests. With them,
    // however, the dependencies have the features with which they were built before.
    const PACKAGES: [&str; 5] = [
        "reentry",
        "reentry-chaos",
        "reentry-cli",
        "reentry-services",
        "reentry-tests",
    ];
    let mut examples = cargo(&["test", "--all-features", "--no-fail-fast", "--doc"]);
    examples.args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    [
        passing(tests_of(&OTHERS), 2, args),
        passing(examples, 2, args),
    ]
}

/// The run of the tests of these targets. It includes all members, so that each crate is built once.
fn tests_of(targets: &[&str]) -> Command {
    let mut command = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(targets);
    command
}

/// The command with so many tests at a time for each core, and with the arguments for the test binaries.
fn passing(mut command: Command, each: usize, args: &[String]) -> Command {
    spread(&mut command, each);
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    command
}

/// A run of some tests, with all features. It uses cargo-nextest if that is installed, with one process for each test,
/// and otherwise cargo. `selection` selects the targets, and after `--` the tests.
pub(crate) fn some(selection: &[&str]) -> Command {
    let runner: &[&str] = if installed("cargo-nextest") {
        &["nextest", "run"]
    } else {
        &["test"]
    };
    let mut command = cargo(runner);
    command.args(["--all-features", "--no-fail-fast"]);
    spread(command.args(selection), 2);
    command
}

/// Sets the number of tests that run at a time for each core: most of them wait for a server or a lease most of the time.
fn spread(command: &mut Command, each: usize) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    for name in [THREADS, THREADS_OF_NEXTEST] {
        if std::env::var_os(name).is_none() {
            command.env(name, (each * cores).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_keeps_other_tests_from_running() {
        let args = ["--nocapture".to_owned()];
        for command in others(&args) {
            let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
            let separator = words.iter().position(|word| word == "--");
            let flag = words.iter().position(|word| word == "--no-fail-fast");
            assert!(flag.is_some() && flag < separator, "{words:?}");
            assert!(words.ends_with(&["--nocapture".into()]), "{words:?}");
        }
    }
}
