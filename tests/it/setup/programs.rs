//! The pages of the guide about whole services show parts of the programs in `examples`, word for word.

use std::fs;
use std::path::Path;

use crate::ROOT;

/// What is in blocks of code there is no doc test: the programs have tests of their own.
const PAGES: [&str; 2] = ["docs/guide/services.md", "docs/guide/shutdown.md"];

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
    for page in PAGES {
        let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        let blocks: Vec<_> = text.split("```").skip(1).step_by(2).collect();
        assert!(blocks.len() > 1, "{page}");
        for block in blocks.iter().filter(|block| !block.starts_with("text\n")) {
            let code = block.strip_prefix("rust\n");
            let code = code.unwrap_or_else(|| panic!("{page}: neither `rust` nor `text`: {block}"));
            let inner = indented(code);
            let is_there = |it: &String| it.contains(code) || it.contains(&inner);
            assert!(
                programs.iter().any(is_there),
                "{page}: no example has this:\n{code}"
            );
        }
    }
}
