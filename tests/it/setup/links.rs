//! The links of the documents have targets: in the repository by their own definitions, in the documentation by those
//! of `src/links.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ROOT;

/// The documents in a folder of the repository, without its subfolders.
fn documents(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect()
}

/// The documents that the documentation shows.
fn shown() -> Vec<PathBuf> {
    let pages = [
        "README.md",
        "docs/design.md",
        "docs/reliability.md",
        "docs/operations.md",
    ];
    let mut pages: Vec<_> = pages
        .iter()
        .map(|page| Path::new(ROOT).join(page))
        .collect();
    pages.extend(documents("docs/guide"));
    pages
}

/// The text without blocks and spans of code.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let outside = text.split("```").step_by(2).collect::<String>();
    outside.split('`').step_by(2).collect()
}

/// The definitions of links: the text in brackets, and the target.
fn definitions(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((label.to_owned(), target.to_owned()))
    });
    lines.collect()
}

/// The targets of links inside the text.
fn inline(path: &Path) -> Vec<String> {
    let prose = prose(path);
    let links = prose.split("](").skip(1);
    links
        .map(|link| link.split(')').next().unwrap().to_owned())
        .collect()
}

/// The form of a heading in a link.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn is_there(from: &Path, target: &str) -> bool {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        from.parent().unwrap().join(file)
    };
    let has_heading = || {
        let text = fs::read_to_string(&path).unwrap();
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        headings.any(|heading| anchor(heading) == fragment)
    };
    path.exists() && (fragment.is_empty() || has_heading())
}

#[test]
fn every_link_leads_to_a_file_of_the_repository() {
    let folders = [".", "docs", "docs/guide", "docs/decisions"];
    for path in folders.iter().flat_map(|folder| documents(folder)) {
        let defined = definitions(&path).into_iter().map(|(_, target)| target);
        for target in defined.chain(inline(&path)) {
            let is_there = target.starts_with("https://") || is_there(&path, &target);
            assert!(is_there, "{}: {target}", path.display());
        }
    }
}

/// A path of the repository would be a dead link in the documentation.
#[test]
fn a_page_of_the_documentation_links_by_labels_alone() {
    for path in shown() {
        for target in inline(&path) {
            let anywhere = target.starts_with("https://") || target.starts_with('#');
            assert!(anywhere, "{}: {target}", path.display());
        }
    }
}

/// In the documentation the first definition of a label counts, which is the one in `links.md`.
#[test]
fn every_label_leads_somewhere_in_the_documentation() {
    let links = definitions(&Path::new(ROOT).join("src/links.md"));
    let known: BTreeSet<_> = links.iter().map(|(label, _)| label).collect();
    let pages = shown();
    let used: Vec<_> = pages.iter().flat_map(|page| definitions(page)).collect();
    for (label, target) in &used {
        assert!(known.contains(label), "[{label}]: {target}");
    }
    let used: BTreeSet<_> = used.iter().map(|(label, _)| label).collect();
    let unused: Vec<_> = known.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn the_addresses_are_those_of_the_repository_of_the_manifest() {
    let read = |name| fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
    let manifest = read("Cargo.toml");
    let mut lines = manifest.lines();
    let repository = lines.find_map(|line| line.strip_prefix("repository = \""));
    let repository = repository.unwrap().trim_end_matches('"');
    let reports = format!("<{repository}/security/advisories/new>");
    assert!(read("SECURITY.md").contains(&reports), "{reports}");
    let clone = format!("git clone {repository} ");
    assert!(read("README.md").contains(&clone), "{clone}");
}

/// The crate of the attribute cannot include a file outside its folder in a package.
#[test]
fn the_page_of_the_attribute_is_one_file() {
    let linked = Path::new(ROOT).join("macros/src/locked.md");
    let page = Path::new(ROOT).join("docs/locked.md").canonicalize();
    assert_eq!(linked.canonicalize().unwrap(), page.unwrap());
}
