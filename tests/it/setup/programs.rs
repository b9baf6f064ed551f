//! The pages of the guide about whole programs show parts of those in `examples`, word for word.

use std::fs;
use std::path::Path;

use crate::ROOT;

/// The pages, the beginning of a block that is a part of a program, and the beginnings of other blocks. A part is no doc
/// test: the programs have tests of their own.
const PAGES: [(&str, &str, &[&str]); 2] = [
    ("docs/guide/services.md", "rust\n", &["text\n", "yaml\n"]),
    (
        "docs/guide/migrating.md",
        "rust,ignore\n",
        &["text\n", "\n"],
    ),
];

/// The text of every program.
fn programs() -> Vec<String> {
    let folders = ["examples", "examples/services"].map(|it| Path::new(ROOT).join(it));
    let entries = folders.iter().flat_map(|it| fs::read_dir(it).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|it| it == "rs"));
    files.map(|it| fs::read_to_string(it).unwrap()).collect()
}

/// The code as it is inside a module.
fn indented(code: &str) -> String {
    let lines = code.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    });
    lines.collect()
}

#[test]
fn the_guide_shows_the_programs_as_they_are() {
    let programs = programs();
    for (page, part, others) in PAGES {
        let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        let blocks: Vec<_> = text.split("```").skip(1).step_by(2).collect();
        let parts: Vec<_> = blocks
            .iter()
            .filter_map(|it| it.strip_prefix(part))
            .collect();
        assert!(parts.len() > 1, "{page}");
        for code in parts {
            let inner = indented(code);
            let is_there = |it: &String| it.contains(code) || it.contains(&inner);
            assert!(
                programs.iter().any(is_there),
                "{page}: no example has this:\n{code}"
            );
        }
        for block in blocks.iter().filter(|it| !it.starts_with(part)) {
            let is_known = others.iter().any(|other| block.starts_with(other));
            assert!(is_known, "{page}: is this tested?\n{block}");
        }
    }
}
