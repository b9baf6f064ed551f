//! Reading the sources: a file without its tests, and what it names at the root of the crate.

#![allow(
    unreachable_pub,
    reason = "a module of a test file has no other way to say what it offers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// One file, without its tests.
pub struct Source {
    pub path: PathBuf,
    /// The module right below the root that it is or belongs to.
    pub module: String,
    /// How many `super` lead from it to the root.
    pub depth: usize,
    pub code: String,
}

impl Source {
    /// What it names at the root of the crate.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (at, path) in self.code.match_indices("crate::") {
            names.extend(heads(&self.code[at + path.len()..]));
        }
        for (at, _) in self.code.match_indices("super::") {
            if self.code[..at].ends_with("super::") {
                continue;
            }
            let mut path = &self.code[at..];
            let mut ups = 0;
            while let Some(rest) = path.strip_prefix("super::") {
                (path, ups) = (rest, ups + 1);
            }
            if ups >= self.depth {
                names.extend(heads(path));
            }
        }
        names
    }

    /// Whether it includes the script, by its path or by the macro that makes the path.
    pub fn loads(&self, verb: &str) -> bool {
        let by_path = self.code.contains(&format!("lua/{verb}.lua"));
        let by_macro =
            self.code.contains("lua/\", ") && self.code.contains(&format!(", \"{verb}\")"));
        self.code.contains("include_str!") && (by_path || by_macro)
    }
}

/// Everything in `src` but what is compiled for tests alone.
pub fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut tests = Vec::new();
    for path in files(Path::new("src")) {
        let (code, modules) = production(&fs::read_to_string(&path).unwrap());
        let inside = path.with_extension("");
        let words = inside.strip_prefix("src").unwrap().iter();
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        let children = match words[..] {
            ["lib"] => Path::new("src"),
            _ => &inside,
        };
        tests.extend(modules.iter().map(|module| children.join(module)));
        sources.push(Source {
            module: words[0].to_owned(),
            depth: words.len(),
            path,
            code,
        });
    }
    sources.retain(|source| {
        let inside = source.path.with_extension("");
        !tests.iter().any(|test| inside.starts_with(test))
    });
    sources
}

/// The code without comments and tests, and the modules that are tests.
pub fn production(text: &str) -> (String, Vec<String>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        if bare == "#[cfg(test)]" {
            // rustfmt closes an item at the indentation at which it opens.
            let indent = &line[..line.len() - bare.len()];
            let end = format!("{indent}}}");
            for line in lines.by_ref() {
                let module = line.trim_start().strip_prefix("mod ");
                tests.extend(module.and_then(|m| m.strip_suffix(';')).map(str::to_owned));
                if line == end || line.ends_with(';') && !line.starts_with(&format!("{indent} ")) {
                    break;
                }
            }
        } else if !bare.starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    (code, tests)
}

/// What each name that the root exports stands in.
pub fn exports(root: &str) -> BTreeMap<String, String> {
    let (_, group) = root.split_once("pub use self::").expect("the exports");
    let modules = elements(group).into_iter();
    let pairs = modules.filter_map(|element| element.split_once("::"));
    pairs
        .flat_map(|(module, names)| heads(names).map(|name| (name, module.to_owned())))
        .collect()
}

/// The first names of an import: of the path, or of each path in the group.
fn heads(import: &str) -> impl Iterator<Item = String> {
    let paths = match import.starts_with('{') {
        true => elements(import),
        false => vec![import],
    };
    paths.into_iter().map(|path| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
        path[..end.unwrap_or(path.len())].to_owned()
    })
}

/// The parts of the group that the text begins with.
fn elements(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 1);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && character == ',' {
            parts.push(group[start..at].trim());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Every file below a folder of the crate.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort_unstable();
    files
}
