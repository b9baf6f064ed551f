//! `reentry man`.

use std::fs;

use tempfile::TempDir;

use crate::program::ended;

#[test]
fn into_a_folder_each_subcommand_has_its_page() {
    let folder = TempDir::new().unwrap();
    let man = folder.path().join("share/man1");
    let ended = ended(&["man", man.to_str().unwrap()]);
    assert_eq!((ended.code, &*ended.err), (Some(0), ""));
    let page = |name| fs::read_to_string(man.join(name)).unwrap();
    assert!(page("reentry.1").contains("reentry\\-run(1)"));
    let run = page("reentry-run.1");
    for part in ["SYNOPSIS", "min\\-hold", "connect\\-timeout", "Exit codes"] {
        assert!(run.contains(part), "{part}: {run}");
    }
    let hold = page("reentry-hold.1");
    for part in ["SYNOPSIS", "permits", "Exit codes"] {
        assert!(hold.contains(part), "{part}: {hold}");
    }
    // The internal subcommand has none.
    let names = fs::read_dir(man)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        !names
            .into_iter()
            .any(|name| name.to_string_lossy().contains("guard"))
    );
}
