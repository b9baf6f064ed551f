//! What the compiler says about mistakes below `#[locked]`: one file of `cases` for each step of the compiler.
//! `tests/mounted/mistakes.rs` has what the attribute itself says.
//!
//! This is a package of its own, since all that a package of tests depends on is compiled once more for such cases.
//!
//! After a change that is meant, or a new toolchain: `TRYBUILD=overwrite cargo test --test
//! locked_ui`, and read the difference.

#[test]
fn every_mistake_is_reported_where_it_is_made() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
