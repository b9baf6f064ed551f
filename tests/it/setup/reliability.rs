//! The tests and the files that the pages below `docs` name exist, and those of the list of failures of servers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ROOT;

/// The pages that name tests and files.
const PAGES: [&str; 4] = [
    "reliability.md",
    "../tests/topologies/main.rs",
    "operations.md",
    "found.md",
];

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("docs").join(name)).unwrap()
}

/// The module and the name of each test, in the form `module::test` of the page.
fn named(page: &str) -> Vec<(String, String)> {
    let code = page.split('`').skip(1).step_by(2);
    let names = code.filter_map(|code| code.rsplit_once("::"));
    // Types of the library have the same form.
    let tests = names.filter(|(module, _)| module.starts_with(|first: char| first.is_lowercase()));
    tests
        .map(|(module, test)| (module.to_owned(), test.to_owned()))
        .collect()
}

/// The location of a module of the integration tests, or of a test binary of its own. Those of the command line are in
/// its package.
fn file(module: &str) -> PathBuf {
    let tests = Path::new(ROOT).join("tests");
    let inside = module.replace("::", "/") + ".rs";
    let folders = ["it", "mounted", "topologies", "seen", "../cli/tests/it"];
    let folders = folders.map(|folder| tests.join(folder).join(&inside));
    let there = folders.into_iter().find(|file| file.exists());
    there.unwrap_or_else(|| tests.join(inside))
}

#[test]
fn every_test_that_the_pages_name_is_there() {
    let [reliability, topologies, operations, found] = PAGES.map(|it| named(&page(it)));
    assert!(reliability.len() > 30, "{reliability:?}");
    assert!(topologies.len() > 20, "{topologies:?}");
    let further = topologies.into_iter().chain(operations).chain(found);
    for (module, test) in reliability.into_iter().chain(further) {
        let file = file(&module);
        let source = fs::read_to_string(&file);
        let source = source.unwrap_or_else(|error| panic!("{module}: {file:?}: {error}"));
        let function = format!("fn {test}(");
        assert!(source.contains(&function), "{module} has no {test}");
    }
}

#[test]
fn every_file_that_the_pages_name_is_there() {
    for page in PAGES.map(page) {
        let code = page.split('`').skip(1).step_by(2);
        let files = code.filter(|code| code.ends_with(".rs") && code.contains('/'));
        for file in files {
            assert!(Path::new(ROOT).join(file).exists(), "{file}");
        }
    }
}

#[test]
fn every_row_of_the_failure_table_names_a_test() {
    let reliability = page("reliability.md");
    let (_, section) = reliability.split_once("## When things go wrong").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    for row in rows {
        assert!(!named(row).is_empty(), "{row}");
    }
}
