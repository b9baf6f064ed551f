//! Keys that are acquired together, and permits of a semaphore.

use super::*;
use crate::plan::SEMAPHORE;

/// The records of a request for several keys that also acquires this one, as one hold.
fn on(key: &str, mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        match &mut record.what {
            What::Wants {
                key: of, together, ..
            } => {
                key.clone_into(of);
                *together = true;
            }
            What::Entered { key: of, hold, .. } => {
                key.clone_into(of);
                "hold:both".clone_into(hold);
            }
            _ => {}
        }
    }
    records
}

/// A section with a permit.
fn with_permit(from: u64, to: u64) -> Vec<Record> {
    on(SEMAPHORE, reads(from, to, 1, 5))
}

#[test]
fn one_of_several_that_is_gone_before_the_entry_is_found() {
    let ended = |reason| record(10, 1, What::Ended(Outcome::Lost(reason)));
    let waits = |reason| history(vec![on(KEY, vec![wants(0, 1), ended(reason)])]);
    assert_eq!(rules(&waits(Reason::Sibling)), []);
    let mut gone = waits(Reason::Deleted);
    assert_eq!(rules(&gone), [Rule::GoneWithoutCause]);
    gone.faults = vec![taken(5)];
    assert_eq!(rules(&gone), []);
}

#[test]
fn one_holder_more_than_permits_is_found() {
    let met = |first: Vec<Record>, from| {
        let mut history = history(vec![
            first,
            with_permit(1, 2 * TTL),
            with_permit(2, 2 * TTL),
            with_permit(from, 2 * TTL),
        ]);
        history.workers[0].1 = End::Killed;
        history
    };
    assert_eq!(rules(&met(with_permit(0, 10), 10)), []);
    assert_eq!(rules(&met(with_permit(0, 10), 9)), [Rule::TooMany]);
    // A holder that was killed has its permit until its lease expires.
    let killed = || with_permit(0, 10)[..2].to_vec();
    assert_eq!(rules(&met(killed(), TTL)), []);
    assert_eq!(rules(&met(killed(), TTL - 1)), [Rule::TooMany]);
}
