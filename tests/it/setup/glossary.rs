//! The glossary of CONTRIBUTING.md, and names that each have one meaning.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::layers::source::{files, sources};
use crate::ROOT;

const HEADING: &str = "## Glossary";

/// The words of the last column of the glossary.
fn banned() -> Vec<String> {
    let page = fs::read_to_string(Path::new(ROOT).join("CONTRIBUTING.md")).unwrap();
    let (_, section) = page.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let banned = rows.skip(1).filter_map(|row| row.rsplit('|').nth(1));
    let words = banned.flat_map(|cell| cell.split(','));
    let words = words.map(|word| word.trim().to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// The code of the crate, its macro, its scripts and the command line, without comments and texts.
fn code() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let mut code = Vec::new();
    for folder in ["src", "macros/src", "cli/src"] {
        for source in sources(&root.join(folder), &[]) {
            code.push((
                source.path.display().to_string(),
                identifiers_of(&source.code, "//"),
            ));
        }
    }
    for path in files(&root.join("lua"), "lua") {
        let text = fs::read_to_string(&path).unwrap();
        code.push((path.display().to_string(), identifiers_of(&text, "--")));
    }
    code
}

/// Leaves out comments, and what is between quotation marks.
fn identifiers_of(code: &str, comment: &str) -> String {
    let lines = code.lines().map(|line| line.split(comment).next().unwrap());
    let texts = lines.flat_map(|line| line.split('"').step_by(2));
    texts.collect::<Vec<_>>().join(" ")
}

/// The words of an identifier: `look_up`, `LOOK_UP` and `LookUp` have two.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase();
        let letter = letter.to_ascii_lowercase();
        words.last_mut().into_iter().for_each(|word| {
            if letter != '_' {
                word.push(letter);
            }
        });
    }
    words
}

#[test]
fn no_identifier_contains_a_word_that_the_glossary_replaces() {
    let banned = banned();
    assert!(banned.len() > 10, "{banned:?}");
    let mut found = Vec::new();
    for (path, code) in code() {
        let identifiers = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for identifier in identifiers {
            if words(identifier).iter().any(|word| banned.contains(word)) {
                found.push(format!("{path}: {identifier}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_two_files_of_the_crate_have_one_name_and_no_two_types() {
    let mut names = BTreeMap::<String, Vec<String>>::new();
    for source in sources(&Path::new(ROOT).join("src"), &[]) {
        let path = source.path.display().to_string();
        let file = source.path.file_name().unwrap().to_str().unwrap();
        if file != "mod.rs" {
            names.entry(file.to_owned()).or_default().push(path.clone());
        }
        for line in source.code.lines() {
            // An item of an implementation is indented, and so is one of a macro or of a function.
            let line = line.strip_prefix("pub").map_or(line, |rest| {
                rest.strip_prefix("(crate)")
                    .or_else(|| rest.strip_prefix("(super)"))
                    .unwrap_or(rest)
                    .trim_start()
            });
            let kinds = ["struct ", "enum ", "trait ", "type "];
            if let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) {
                let end = rest.find(|letter: char| !letter.is_alphanumeric());
                let name = &rest[..end.unwrap_or(rest.len())];
                names.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    names.retain(|_, places| places.len() > 1);
    assert!(names.is_empty(), "{names:#?}");
}
