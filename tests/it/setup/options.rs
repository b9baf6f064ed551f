//! The table of all options in the guide is complete: each option is where the table says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::ROOT;

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// The options of the table that are set on one of these.
fn in_table(text: &str, on: [&str; 2]) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let names = rows
        .filter(|cells| on.contains(&cells[3]))
        .flat_map(|cells| cells[1].split(", "));
    names
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

/// The methods of a type that set something.
fn in_api(text: &str, of: &str) -> BTreeSet<String> {
    let begin = format!("pub fn reentry::{of}");
    let setters = text.lines().filter(|line| line.ends_with("-> Self"));
    let setters = setters.filter_map(|line| line.strip_prefix(&begin));
    let names = setters.filter_map(|rest| {
        let (_, name) = rest.split_once("::")?;
        name.split(['(', '<']).next()
    });
    // Another form of `wait`.
    let names = names.filter(|name| *name != "no_wait");
    names.map(str::to_owned).collect()
}

#[test]
fn the_table_of_options_says_where_each_option_is() {
    let (page, api) = (text("docs/guide/options.md"), text("docs/api.txt"));
    for (of, on) in [("LocksBuilder", "builder"), ("LockRequest", "request")] {
        assert_eq!(in_table(&page, ["both", on]), in_api(&api, of), "{of}");
    }
}
