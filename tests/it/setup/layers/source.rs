//! The parser of the sources. It reads a file without its tests, and finds the files from which it imports.

#![allow(
    unreachable_pub,
    reason = "a module of a test file has no other way to say what it offers"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of a module, beginning at the root of its crate.
pub type Module = Vec<String>;

/// One file, without its tests.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    pub module: Module,
    pub code: String,
}

impl Source {
    /// Every path in it, beginning at the root of the crate.
    pub fn paths(&self) -> BTreeSet<Module> {
        let mut paths = BTreeSet::new();
        for (at, _) in self.code.match_indices("::") {
            let start = self.code[..at]
                .rfind(|c: char| !is_name(c))
                .map_or(0, |at| at + 1);
            let head = &self.code[start..at];
            let begins = !self.code[..start].ends_with("::") && !head.is_empty();
            if begins && let Some(base) = self.base(head) {
                for path in leaves(&self.code[at + 2..]) {
                    paths.extend(resolved(base.clone(), path));
                }
            }
        }
        paths
    }

    /// The module in which the item of a path is, if the path begins with this name.
    fn base(&self, head: &str) -> Option<Module> {
        let mut module = self.module.clone();
        match head {
            "crate" => Some(Module::new()),
            "self" => Some(module),
            "super" => module.pop().map(|_| module),
            // A child can also be named without `self`.
            child if self.declares(child) => {
                module.push(child.to_owned());
                Some(module)
            }
            _ => None,
        }
    }

    /// Returns whether it says that this module has a file of its own.
    fn declares(&self, module: &str) -> bool {
        self.code.contains(&format!("mod {module};"))
    }

    /// Returns whether it includes the script, by its path or by the macro that makes the path.
    pub fn loads(&self, verb: &str) -> bool {
        self.code.contains(&format!("lua/{verb}.lua\""))
            || self.code.contains(&format!(" \"{verb}\";"))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The path with its leading `super` and `self` resolved.
fn resolved(mut base: Module, path: Vec<&str>) -> Option<Module> {
    for name in path {
        match name {
            "super" => drop(base.pop()?),
            "self" => {}
            name => base.push(name.to_owned()),
        }
    }
    Some(base)
}

/// The paths at the beginning of the text: one, or each of a group. A variable of a macro does not count, because it
/// represents a name at the place where the macro is used.
fn leaves(text: &str) -> Vec<Vec<&str>> {
    let end = text.find(|c: char| !is_name(c) && c != ':');
    let (head, rest) = text.split_at(end.unwrap_or(text.len()));
    let head: Vec<_> = head.split("::").filter(|name| !name.is_empty()).collect();
    if let Some(group) = rest.strip_prefix('{') {
        let (group, _) = group.split_once('}').unwrap_or_default();
        assert!(!group.contains('{'), "a group in a group: {group}");
        let names = group
            .split(',')
            .filter_map(|it| it.split_whitespace().next());
        let paths = names.map(|name| [&head[..], &name.split("::").collect::<Vec<_>>()].concat());
        return paths.collect();
    }
    if rest.starts_with('$') {
        Vec::new()
    } else {
        vec![head]
    }
}

/// Everything below the root of a crate, or below a folder that is mounted in one as `mount`. Code that is compiled
/// only for tests is omitted.
pub fn sources(root: &Path, mount: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut tests = Vec::new();
    for path in files(root, "rs") {
        let (code, modules) = production(&fs::read_to_string(&path).unwrap());
        let inside = path.with_extension("");
        let words = inside.strip_prefix(root).unwrap().iter();
        let mut below: Module = words
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        below.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        let folder = below
            .iter()
            .fold(root.to_owned(), |folder, name| folder.join(name));
        tests.extend(modules.iter().map(|module| folder.join(module)));
        let module = mount.iter().map(|&name| name.to_owned());
        sources.push(Source {
            path,
            module: module.chain(below).collect(),
            code,
        });
    }
    sources.retain(|source| {
        let inside = source.path.with_extension("");
        !tests.iter().any(|test| inside.starts_with(test))
    });
    sources
}

/// The imports between files, by their indexes in the list. An item that has no file of its own belongs to the file in
/// which it is declared.
pub fn imports(sources: &[Source]) -> Vec<BTreeSet<usize>> {
    let file = |path: &Module| {
        let holds = |source: &Source| path.starts_with(&source.module);
        let found = (0..sources.len()).filter(|&at| holds(&sources[at]));
        let found = found.max_by_key(|&at| sources[at].module.len())?;
        let mut inside = path[sources[found].module.len()..].iter();
        // A module that it declares, and whose file is not in the list, is mounted from another folder.
        let is_elsewhere = inside.any(|name| sources[found].declares(name));
        (!is_elsewhere).then_some(found)
    };
    let of = |(at, source): (usize, &Source)| {
        let mut targets: BTreeSet<_> = source.paths().iter().filter_map(file).collect();
        targets.remove(&at);
        targets
    };
    sources.iter().enumerate().map(of).collect()
}

/// A circle of files, if there is one: a file that leads back to itself, with the path.
pub fn circle(imports: &[BTreeSet<usize>]) -> Option<Vec<usize>> {
    fn search(
        at: usize,
        way: &mut Vec<usize>,
        done: &mut [bool],
        imports: &[BTreeSet<usize>],
    ) -> bool {
        if let Some(start) = way.iter().position(|&before| before == at) {
            way.drain(..start);
            return true;
        }
        if done[at] {
            return false;
        }
        way.push(at);
        if imports[at]
            .iter()
            .any(|&next| search(next, way, done, imports))
        {
            return true;
        }
        way.pop();
        done[at] = true;
        false
    }
    let mut done = vec![false; imports.len()];
    (0..imports.len()).find_map(|start| {
        let mut way = Vec::new();
        search(start, &mut way, &mut done, imports).then_some(way)
    })
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

/// Every file with this ending below a folder.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path, ending)),
            false if path.extension().is_some_and(|it| it == ending) => files.push(path),
            false => {}
        }
    }
    files.sort_unstable();
    files
}
