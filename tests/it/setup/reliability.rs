//! The tests and the files that the pages below `docs` and `CONTRIBUTING.md` name exist, and those of the list of
//! failures of servers.

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

/// The part of a page under this heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, section) = page.split_once(heading).unwrap();
    section.split("\n## ").next().unwrap()
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
    let rows = section(&reliability, "## When things go wrong")
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    for row in rows {
        assert!(!named(row).is_empty(), "{row}");
    }
}

/// The section of CONTRIBUTING.md leads through the code.
#[test]
fn every_step_of_the_way_names_files_that_exist() {
    let contributing = page("../CONTRIBUTING.md");
    let section = section(&contributing, "## The way of a lock through the code");
    let mut steps = Vec::<String>::new();
    for line in section.lines() {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            steps.push(String::new());
        }
        steps.last_mut().into_iter().for_each(|it| *it += line);
    }
    assert!(steps.len() > 5, "{steps:?}");
    for step in steps {
        let code = step.split('`').skip(1).step_by(2);
        let files: Vec<_> = code.filter(|code| code.contains('/')).collect();
        assert!(!files.is_empty(), "no file in: {step}");
        for file in files {
            assert!(Path::new(ROOT).join(file).is_file(), "{file} in: {step}");
        }
    }
}
