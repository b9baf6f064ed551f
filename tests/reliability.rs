//! `docs/reliability.md` names a test for each of its rows: every one of them is there.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

use std::fs;

const PAGE: &str = "docs/reliability.md";

/// `file::test`, as the page writes it.
fn named(page: &str) -> Vec<(String, String)> {
    let code = page.split('`').skip(1).step_by(2);
    let names = code.filter_map(|code| code.split_once("::"));
    // Types of the library are written in the same way.
    let tests = names.filter(|(file, _)| file.starts_with(|first: char| first.is_lowercase()));
    tests
        .map(|(file, test)| (file.to_owned(), test.to_owned()))
        .collect()
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let named = named(&fs::read_to_string(PAGE).unwrap());
    assert!(named.len() > 30, "{named:?}");
    for (file, test) in named {
        let path = format!("tests/{file}.rs");
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let function = format!("fn {test}(");
        assert!(source.contains(&function), "{path} has no {test}");
    }
}

#[test]
fn every_row_of_the_failure_table_names_a_test() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, section) = page.split_once("## When things go wrong").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    for row in rows {
        assert!(!named(row).is_empty(), "{row}");
    }
}
