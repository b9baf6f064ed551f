//! The rules for the files: seven floors that stack, no circle of files, one reader for each script, short files.

pub(crate) mod source;

use source::{Source, circle, files, imports, sources};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The folders of `src`, beginning with the lowest. A file imports from its own floor and from those below.
const FLOORS: [&str; 7] = ["base", "redis", "store", "queue", "hold", "api", "testing"];

/// The pages of the guide, which are only documentation, next to the floors.
const PAGES: &str = "guide";

/// The folders of code, each with its module in its crate.
const FOLDERS: [(&str, &[&str]); 16] = [
    ("../src", &[]),
    ("../macros/src", &[]),
    ("../cli/src", &[]),
    ("../cli/tests/it", &[]),
    ("../xtask/src", &[]),
    ("../benches/peers/src", &[]),
    ("it", &[]),
    ("topologies", &[]),
    ("seen", &[]),
    ("chaos/src", &[]),
    ("mounted/contract", &["store", "contract"]),
    ("mounted/differential", &["store", "differential"]),
    ("mounted/model", &["queue", "machine", "model"]),
    ("mounted/simulation", &["simulation"]),
    ("support", &["support"]),
    // Each file is mounted next to its subject.
    ("mounted/properties", &["properties"]),
];

/// The maximum number of lines. A longer file has a second idea in it.
const LONGEST: usize = 400;

/// The files of the crate itself.
fn crate_sources() -> Vec<Source> {
    let mut sources = sources(Path::new("../src"), &[]);
    sources.retain(|source| source.module != [PAGES]);
    sources
}

/// `lib.rs` is above all floors.
fn floor(source: &Source) -> usize {
    let folder = source.module.first();
    let floor = folder.map(|folder| FLOORS.iter().position(|floor| floor == folder));
    floor.map_or(FLOORS.len(), |floor| {
        floor.unwrap_or_else(|| panic!("{source:?}"))
    })
}

#[test]
fn imports_point_only_downward() {
    let sources = crate_sources();
    let mut upward = BTreeSet::new();
    for (source, targets) in sources.iter().zip(imports(&sources)) {
        for target in targets.into_iter().map(|at| &sources[at]) {
            if floor(target) > floor(source) {
                upward.insert(format!(
                    "{} imports {}",
                    source.path.display(),
                    target.path.display()
                ));
            }
        }
    }
    assert!(upward.is_empty(), "from a floor above: {upward:#?}");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for (folder, module) in FOLDERS {
        let sources = sources(Path::new(folder), module);
        let imports = imports(&sources);
        let way = circle(&imports);
        let way = way.map(|way| {
            way.into_iter()
                .map(|at| &sources[at].path)
                .collect::<Vec<_>>()
        });
        assert_eq!(way, None);
    }
}

#[test]
fn every_script_is_loaded_by_exactly_one_file() {
    for script in files(Path::new("../lua"), "lua") {
        let name = script.strip_prefix("../lua").unwrap().with_extension("");
        let name = name.to_str().unwrap();
        let loaders = crate_sources()
            .into_iter()
            .filter(|source| source.loads(name));
        let loaders: Vec<_> = loaders.map(|source| source.path).collect();
        assert_eq!(loaders.len(), 1, "{name}.lua is loaded by {loaders:?}");
    }
}

/// A timer of tokio panics when it is polled after its runtime has ended. The timers of `timer` do not.
#[test]
fn only_timers_that_follow_their_future_are_used() {
    let makes_timers = |line: &&str| {
        let line = line.trim_start();
        let times = line.starts_with("time::{") || line.contains("tokio::time::");
        let timer = ["sleep", "timeout", "interval"]
            .iter()
            .any(|it| line.contains(it));
        times && timer
    };
    for source in crate_sources() {
        let found = source.code.lines().find(makes_timers);
        let is_allowed = source.module.last().is_some_and(|name| name == "timer");
        assert!(found.is_none() || is_allowed, "{}", source.path.display());
    }
}

#[test]
fn no_file_is_longer_than_one_idea() {
    let folders = FOLDERS.iter().map(|(folder, _)| Path::new(folder));
    for path in folders.flat_map(|folder| files(folder, "rs")) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < LONGEST, "{} has {lines} lines", path.display());
    }
}
