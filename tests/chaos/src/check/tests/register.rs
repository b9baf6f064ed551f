//! The register, and the knowledge of workers about their transactions.

use super::*;
use crate::tally::{Entry, Total};

/// A section with one transaction, about which the worker knows this.
fn writes(op: u64, entry: Option<Entry>) -> Vec<Record> {
    let at = 10 * op;
    let mut records = section(at, at + 5, op, op);
    let entry = entry.map(What::Registered);
    let known = [What::Commits].into_iter().chain(entry);
    records.splice(2..2, known.map(|what| record(at + 1, op, what)));
    records
}

/// The rules that are broken if the register contains this. One transaction was acknowledged, and one has an unknown
/// result.
fn broken(value: i64, rows: i64, stale: i64) -> Vec<Rule> {
    let mut history = history(vec![writes(1, Some(Entry::Committed)), writes(2, None)]);
    history.register = Some(vec![Total {
        key: KEY.to_owned(),
        value,
        rows,
        stale,
    }]);
    rules(&history)
}

#[test]
fn a_transaction_with_an_unknown_result_may_be_committed_or_not() {
    assert_eq!(broken(1, 1, 0), []);
    assert_eq!(broken(2, 2, 0), []);
    assert_eq!(broken(0, 0, 0), [Rule::Commits]);
    assert_eq!(broken(3, 3, 0), [Rule::Commits]);
}

#[test]
fn an_update_that_is_lost_is_found() {
    assert_eq!(broken(1, 2, 0), [Rule::LostUpdate]);
}

#[test]
fn a_stale_transaction_that_is_committed_is_found() {
    assert_eq!(broken(2, 2, 1), [Rule::StaleWrite]);
}

#[test]
fn a_key_that_the_register_does_not_have_is_found() {
    let mut history = history(vec![writes(1, Some(Entry::Committed))]);
    assert_eq!(rules(&history), []);
    history.register = Some(Vec::new());
    assert_eq!(rules(&history), [Rule::Commits]);
}

#[test]
fn a_register_that_refuses_nothing_is_found() {
    let refused = |token| Write {
        reads: false,
        key: KEY.to_owned(),
        token,
        writer: "w0/1".to_owned(),
        answer: Answer::Refused,
    };
    let mut history = history(vec![section(0, 10, 1, 5)]);
    history.writes = vec![refused(1); 20];
    assert_eq!(rules(&history), []);
    history.register = Some(Vec::new());
    assert_eq!(rules(&history), [Rule::NoneRefused]);
    let entry = What::Registered(Entry::Refused);
    history.read("w1", vec![wants(20, 1), record(21, 1, entry)]);
    history.ops[1].ended = Some((T + 22, Outcome::Dropped));
    assert_eq!(rules(&history), []);
}
