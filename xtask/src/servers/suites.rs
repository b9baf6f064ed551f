//! The suites that run on one server, and their results.

use super::series::Server;
use crate::run::{line, run as run_one, step};
use crate::{chaos, test};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus};

/// The tests on a server: of the stores, of the observability, of several servers, and of the command line.
const TESTS: [&[&str]; 4] = [
    &["--test", "unit", "--", "store::", "--skip", "in_memory"],
    &[
        "--test",
        "it",
        "--test",
        "seen",
        "--test",
        "locked_installed",
        "--test",
        "runtime_ends",
        "--",
        "--skip",
        "in_memory",
        "--skip",
        "testing::",
        // The metrics as Prometheus reads them.
        "--skip",
        "scrape::",
        // These tests are about other databases.
        "--skip",
        "fence::",
    ],
    &["--package", "reentry-tests", "--test", "topologies"],
    // The page of the command line shows the output for Redis 7.0.
    &[
        "--package",
        "reentry-cli",
        "--test",
        "command_line",
        "--",
        "--skip",
        "page::",
    ],
];

/// The tests that are not part of any other run: `test = false` in tests/Cargo.toml.
const CLOCK_STEPS: [&str; 2] = ["--test", "clock_steps"];

const CHAOS: [&str; 4] = ["--minutes", "1", "--seed", "1"];

/// The results of the suites on one server.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) tests: Result<Count>,
    /// The result of the stepped clock; `None` if the clock of this build cannot be stepped.
    pub(super) clock_steps: Option<Result<Count>>,
    pub(super) chaos: Result<()>,
}

/// The results of some tests.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// The names of the failed tests.
    pub(super) failures: BTreeSet<String>,
}

/// Runs all suites on this server, even if one fails.
pub(super) fn run(name: &str, server: &Server) -> Results {
    let tests = step(&format!("{name}: tests"), || {
        let mut count = Count::default();
        for selection in TESTS {
            run_tests(test::some(selection), server, &mut count)?;
        }
        Ok(count)
    });
    let clock_steps = server.faketime.as_ref().map(|library| {
        step(&format!("{name}: tests that step its clock"), || {
            let mut count = Count::default();
            let mut tests = test::some(&CLOCK_STEPS);
            tests.env("REENTRY_FAKETIME", library);
            run_tests(tests, server, &mut count)?;
            Ok(count)
        })
    });
    let chaos = step(&format!("{name}: chaos"), || {
        let mut harness = chaos::harness()?;
        harness.args(CHAOS).env("REENTRY_SERVER", &server.program);
        run_one(&mut harness)
    });
    Results {
        tests,
        clock_steps,
        chaos,
    }
}

/// Runs tests and adds their results to the count. Fails if the tests cannot be run.
fn run_tests(mut command: Command, server: &Server, count: &mut Count) -> Result<()> {
    command.env("REENTRY_SERVER", &server.program);
    let line = line(&command);
    let before = count.failed;
    let status =
        listen(command, |said| count.hear(said)).with_context(|| format!("cannot run `{line}`"))?;
    ensure!(
        status.success() || count.failed > before,
        "`{line}` failed ({status})"
    );
    Ok(())
}

/// Runs a program and passes on all of its output.
fn listen(mut command: Command, mut hear: impl FnMut(&str)) -> io::Result<ExitStatus> {
    eprintln!("$ {}", line(&command));
    let (said, voice) = io::pipe()?;
    let mut child = command.stdout(voice.try_clone()?).stderr(voice).spawn()?;
    // Otherwise its own ends of the pipe would stay open.
    drop(command);
    for said in BufReader::new(said).split(b'\n') {
        let said = said?;
        let said = String::from_utf8_lossy(&said);
        eprintln!("{said}");
        hear(&said);
    }
    child.wait()
}

impl Count {
    /// Reads one line of the output of `cargo test` or `cargo nextest`.
    fn hear(&mut self, said: &str) {
        // The lines of a test that cargo-nextest repeats are indented.
        let of_cargo = said
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"));
        let is_result = said.starts_with("test result:");
        let said = said.trim();
        if is_result || said.starts_with("Summary [") {
            self.passed += number_before("passed", said);
            self.failed += number_before("failed", said) + number_before("timed", said);
        }
        let of_nextest = ["FAIL [", "SIGABRT [", "SIGSEGV [", "TIMEOUT ["];
        let of_nextest = of_nextest.iter().any(|word| said.starts_with(word));
        let of_nextest = of_nextest.then(|| said.rsplit(' ').next()).flatten();
        self.failures
            .extend(of_cargo.or(of_nextest).map(str::to_owned));
    }
}

/// The number in front of this word; 0 if there is none.
fn number_before(word: &str, said: &str) -> u64 {
    let words: Vec<_> = said
        .split([' ', ',', ';'])
        .filter(|it| !it.is_empty())
        .collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_are_understood() {
        let mut count = Count::default();
        let said = "\
test calls::one ... ok
test calls::two ... FAILED
test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.1s
        PASS [   0.010s] (1/9) reentry-tests::it calls::one
        FAIL [   0.012s] (2/9) reentry-tests::it setup::tls::three
    test setup::tls::three ... FAILED
    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 8 filtered out; finished in 0.1s
     Summary [   2.5s] 10 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 5 skipped
        FAIL [   0.012s] (2/9) reentry-tests::it setup::tls::three
     TIMEOUT [  60.000s] (3/9) reentry-tests::it calls::four";
        said.lines().for_each(|line| count.hear(line));
        assert_eq!((count.passed, count.failed), (15, 3));
        let failures: Vec<_> = count.failures.into_iter().collect();
        assert_eq!(failures, ["calls::four", "calls::two", "setup::tls::three"]);
    }

    #[test]
    fn all_output_of_a_program_is_read() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let mut heard = Vec::new();
        let status = listen(command, |said| heard.push(said.to_owned())).unwrap();
        assert_eq!(
            (heard, status.code()),
            (vec!["one".into(), "two".into()], Some(3))
        );
    }
}
