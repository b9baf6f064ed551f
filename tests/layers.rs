//! How the code lies: imports point only downward, scripts have one reader, files stay short.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[path = "layers/source.rs"]
mod source;

use source::{Source, exports, files, production, sources};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table of contents of `src`, from the ground up. A file imports only from lines above its
/// own; the files of one line are strangers. A folder counts as one with the file of its name.
const LEVELS: &[&[&str]] = &[
    &["mutex", "timer", "error", "id"],
    &["key", "options"],
    &["report", "releaser"],
    &["store"],
    &["lease"],
    &["depth"],
    &["queue"],
    &["watchdog"],
    &["hold"],
    &["held", "loss"],
    &["scope"],
    &["engine"],
    &["with_lock", "guard"],
    &["request", "info"],
    &["locks"],
    &["builder"],
    &["global"],
    &["__private", "__fuzz"],
    &["lib"],
];

/// Past this, a file has a second idea in it.
const LONGEST: usize = 400;

#[test]
fn imports_point_only_downward() {
    let sources = sources();
    let root = sources.iter().find(|source| source.module == "lib");
    let exports = exports(&root.expect("src/lib.rs").code);
    let mut upward = BTreeSet::new();
    for source in &sources {
        for name in source.names() {
            // A name at the root is a module, or what the root exports from one.
            let target = match level(&name) {
                Some(_) => &name,
                None => exports.get(&name).unwrap_or(&name),
            };
            if !may_import(&source.module, target) {
                upward.insert(format!("{} imports {target}", source.path.display()));
            }
        }
    }
    assert!(upward.is_empty(), "not from a lower level: {upward:#?}");
}

#[test]
fn every_module_has_its_level() {
    let there: BTreeSet<_> = sources().into_iter().map(|source| source.module).collect();
    let listed = LEVELS
        .iter()
        .copied()
        .flatten()
        .map(|&name| name.to_owned());
    assert_eq!(there, listed.collect(), "in src, and in LEVELS");
}

#[test]
fn every_script_is_loaded_by_exactly_one_file() {
    for script in files(Path::new("lua")) {
        let name = script.strip_prefix("lua").unwrap().with_extension("");
        let name = name.to_str().unwrap();
        let loaders = sources().into_iter().filter(|source| source.loads(name));
        let loaders: Vec<_> = loaders.map(|source| source.path).collect();
        assert_eq!(loaders.len(), 1, "{name}.lua is loaded by {loaders:?}");
    }
}

/// A timer of tokio panics when it is polled after its runtime has ended; those of `timer` do not.
#[test]
fn only_timers_that_follow_their_future_are_used() {
    let makes_timers = |line: &&str| {
        let line = line.trim_start();
        let times = line.starts_with("time::{") || line.contains("tokio::time::");
        let timer = ["sleep", "timeout", "interval"]
            .iter()
            .any(|it| line.contains(it));
        times && timer && !line.starts_with("//")
    };
    for source in sources().iter().filter(|source| source.module != "timer") {
        let found = source.code.lines().find(makes_timers);
        assert_eq!(found, None, "{}", source.path.display());
    }
}

#[test]
fn no_file_is_longer_than_one_idea() {
    for path in files(Path::new("src")) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < LONGEST, "{} has {lines} lines", path.display());
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let (code, tests) = production(
        "
use crate::{a::B, c::{self, D}, E};
use self::no::No;
pub(super) fn f(x: &crate::g::H) -> super::i::J { super::super::k::l($crate::m::n) }
// crate::no
#[cfg(test)]
mod tests {
    use crate::no;
}
#[cfg(test)]
mod only_tests;
pub(crate) use crate::o;
",
    );
    let names = |depth| {
        let (path, module, code) = (PathBuf::new(), String::new(), code.clone());
        let source = Source {
            path,
            module,
            depth,
            code,
        };
        source.names().into_iter().collect::<String>()
    };
    assert_eq!([names(1), names(2)], ["Eacgikmo", "Eacgkmo"]);
    assert_eq!(tests, ["only_tests"]);
}

fn level(module: &str) -> Option<usize> {
    LEVELS.iter().position(|level| level.contains(&module))
}

fn may_import(module: &str, target: &str) -> bool {
    let below = level(target).is_some_and(|target| level(module) > Some(target));
    below || module == target || module == "lib"
}
