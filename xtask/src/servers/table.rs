//! The table at the end.

use super::suites::{Count, Results};
use anyhow::{Error, Result};

/// The row of one server.
#[derive(Debug)]
pub(super) struct Row {
    cells: [String; 5],
    /// The failures, one line each.
    failures: Vec<String>,
}

const HEAD: [&str; 5] = ["server", "version", "tests passed", "clock steps", "chaos"];

/// The text for suites that were not run.
const NOTHING: &str = "–";

impl Row {
    /// The row of a server with its results.
    pub(super) fn new(name: &str, version: String, results: Results) -> Self {
        let mut failures = Vec::new();
        let mut cell = |what: &str, outcome: Result<Count>| match outcome {
            Ok(count) => {
                let failed = count.failures.iter().map(|test| format!("{name}: {test}"));
                failures.extend(failed);
                if count.failed > 0 && count.failures.is_empty() {
                    failures.push(format!("{name}: {} {what}", count.failed));
                }
                format!("{} of {}", count.passed, count.passed + count.failed)
            }
            Err(error) => {
                failures.push(format!("{name}: {error:#}"));
                "not run".to_owned()
            }
        };
        let tests = cell("tests", results.tests);
        let steps = results.clock_steps.map(|steps| cell("clock steps", steps));
        let chaos = match results.chaos {
            Ok(()) => "no violation".to_owned(),
            Err(error) => {
                failures.push(format!("{name}: {error:#}"));
                "failed".to_owned()
            }
        };
        let steps = steps.unwrap_or_else(|| NOTHING.to_owned());
        Self {
            cells: [name.to_owned(), version, tests, steps, chaos],
            failures,
        }
    }

    /// The row of a server that could not be fetched or started.
    pub(super) fn missing(name: &str, error: &Error) -> Self {
        let nothing = || NOTHING.to_owned();
        Self {
            cells: [name.to_owned(), nothing(), nothing(), nothing(), nothing()],
            failures: vec![format!("{name}: {error:#}")],
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.failures.is_empty()
    }
}

/// The table, and below it the failures.
pub(super) fn shown(rows: &[Row]) -> String {
    let mut lines = vec![
        line(&HEAD.map(str::to_owned)),
        "|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(rows.iter().map(|row| line(&row.cells)));
    let failures = rows.iter().flat_map(|row| &row.failures);
    lines.extend(failures.map(|failure| format!("FAILED: {failure}")));
    lines.join("\n")
}

fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    fn results(failed: u64, chaos: Result<()>) -> Results {
        let failures = (0..failed).map(|n| format!("test_{n}")).collect();
        Results {
            tests: Ok(Count {
                passed: 7,
                failed,
                failures,
            }),
            clock_steps: None,
            chaos,
        }
    }

    #[test]
    fn a_row_is_good_where_nothing_failed() {
        let row = |results| Row::new("redis-8", "8.0.6".into(), results);
        let good = row(results(0, Ok(())));
        let one = row(results(1, Ok(())));
        let chaos = row(results(0, Err(anyhow!("two violations"))));
        let missing = Row::missing("valkey-9", &anyhow!("no network"));
        assert!(good.is_good());
        assert!(!one.is_good() && !chaos.is_good() && !missing.is_good());
        let shown = shown(&[good, one, chaos, missing]);
        let expected = "\
| server | version | tests passed | clock steps | chaos |
|---|---|---|---|---|
| redis-8 | 8.0.6 | 7 of 7 | – | no violation |
| redis-8 | 8.0.6 | 7 of 8 | – | no violation |
| redis-8 | 8.0.6 | 7 of 7 | – | failed |
| valkey-9 | – | – | – | – |
FAILED: redis-8: test_0
FAILED: redis-8: two violations
FAILED: valkey-9: no network";
        assert_eq!(shown, expected);
    }
}
