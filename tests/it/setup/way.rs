//! The way of a lock through the code, as CONTRIBUTING.md describes it, leads through files that exist.

use std::fs;
use std::path::Path;

use crate::ROOT;

/// The heading of the section.
const HEADING: &str = "## The way of a lock through the code";

#[test]
fn every_step_of_the_way_names_files_that_exist() {
    let root = Path::new(ROOT);
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let (_, section) = page.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
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
            assert!(root.join(file).is_file(), "{file} in: {step}");
        }
    }
}
