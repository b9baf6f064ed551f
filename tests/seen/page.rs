//! The page `docs/operations.md`, which describes the events, spans and metrics.

use std::fs;

/// The dashboard and the rules.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/observability");

pub(crate) fn text() -> String {
    fs::read_to_string(format!("{FOLDER}/../operations.md")).unwrap()
}

/// The names of the metrics in its table.
pub(crate) fn metrics() -> Vec<String> {
    let text = text();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `reentry_"));
    let names = rows.filter_map(|row| row.split('`').next());
    names.map(|name| format!("reentry_{name}")).collect()
}
