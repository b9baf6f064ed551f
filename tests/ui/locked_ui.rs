//! What `#[locked]` says about mistakes: one file of `cases` for each rule.
//!
//! This is a package of its own, since all that a package of tests depends on is compiled once more for such cases.
//!
//! After a change that is meant, or a new toolchain: `TRYBUILD=overwrite cargo test --test
//! locked_ui`, and read the difference.

#[test]
fn every_mistake_is_reported_where_it_is_made() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
