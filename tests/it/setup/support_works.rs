//! The tests use timeouts that do not end by themselves.

use std::fs;
use std::path::Path;

use super::layers::source::files;

/// The line of `source` that connects with the default timeouts to a server that may exist.
fn hasty(source: &str) -> Option<&str> {
    // A literal URL is `memory:`, or that of a server that does not exist.
    const SPECIFIC: [&str; 4] = ["_timeout(", "\"memory:\"", "connect(\"", "builder(\""];
    let mut begins = source.match_indices("Locks::").map(|(at, _)| &source[at..]);
    let is_hasty = |code: &&str| {
        // Two statements are checked, because a builder is often first assigned to a variable.
        let statements: String = code.split(';').take(2).collect();
        let has = |part: &&str| statements.contains(*part);
        let connects = code.starts_with("Locks::connect(")
            || code.starts_with("Locks::builder(")
            || code.starts_with("Locks::builder_with_pool(");
        connects && !SPECIFIC.iter().any(has)
    };
    begins.find(is_hasty).and_then(|code| code.lines().next())
}

/// Two seconds for a connection and one for a response are short on a busy machine. If they are not its subject, a test
/// connects with `connect`, `patient` or `patient_at`.
#[test]
fn no_test_relies_on_the_default_timeouts() {
    const EXEMPT: [&str; 4] = [
        // The subject of these files is a connection that fails.
        "faults/connect_fails.rs",
        "cluster/kit.rs",
        "setup/secrets.rs",
        // This file contains the examples below.
        "setup/support_works.rs",
    ];
    let tests = Path::new(crate::ROOT).join("tests");
    for path in files(&tests, "rs") {
        if !EXEMPT.iter().any(|exempt| path.ends_with(exempt)) {
            let source = fs::read_to_string(&path).unwrap();
            assert_eq!(hasty(&source), None, "{}", path.display());
        }
    }
    assert!(hasty("let locks = Locks::connect(server.url());").is_some());
    assert!(hasty("Locks::builder(url).build()").is_some());
    assert!(hasty("let builder = Locks::builder_with_pool(pool); builder.build()").is_some());
    assert!(hasty("Locks::connect(\"memory:\").await; Locks::builder(\"memory:\")").is_none());
}
