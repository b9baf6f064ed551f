//! What `#[locked]` says about mistakes: one file of `tests/ui` for each rule.
//!
//! After a change that is meant, or a new toolchain: `TRYBUILD=overwrite cargo test --test
//! locked_ui`, and read the difference.
#![cfg(feature = "macros")]

#[test]
fn every_mistake_is_reported_where_it_is_made() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
