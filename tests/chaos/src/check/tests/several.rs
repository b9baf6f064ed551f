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

/// A section of a request for two keys.
fn both(from: u64, to: u64, tokens: [u64; 2]) -> Vec<Record> {
    let mut records = on(KEYS[0], section(from, to, 1, tokens[0]));
    records.extend(on(KEYS[1], section(from, to, 2, tokens[1])));
    records
}

/// A section with a permit.
fn with_permit(from: u64, to: u64) -> Vec<Record> {
    on(SEMAPHORE, reads(from, to, 1, 5))
}

#[test]
fn a_write_of_one_of_several_keys_beside_a_reader_is_found() {
    let met = |from| {
        let reader = on(KEYS[1], reads(0, 10, 1, 6));
        history(vec![reader, both(from, from + 10, [5, 7])])
    };
    assert_eq!(rules(&met(11)), []);
    assert_eq!(rules(&met(9)), [Rule::Overlap]);
    let mut excused = met(9);
    excused.faults = vec![taken(5)];
    assert_eq!(rules(&excused), []);
    excused.faults[0].target = Target::Key(KEYS[0]);
    assert_eq!(rules(&excused), [Rule::Overlap]);
}

#[test]
fn each_of_several_keys_has_its_own_tokens() {
    let after = |tokens| history(vec![both(0, 10, [5, 50]), both(11, 20, tokens)]);
    assert_eq!(rules(&after([6, 51])), []);
    assert_eq!(rules(&after([6, 49])), [Rule::TokenOrder]);
    assert_eq!(rules(&after([6, 50])), [Rule::TokenTwice]);
}

#[test]
fn a_hold_of_several_keys_is_followed_on_each() {
    let mut history = history(vec![both(0, 2 * TTL, [5, 6])]);
    history.faults = vec![taken(TTL / 2)];
    history.faults[0].target = Target::Key(KEYS[1]);
    assert_eq!(rules(&history), [Rule::NeverTold]);
    let seen = |key, at, holds: &[&str]| Sighting {
        node: 0,
        key,
        holds: holds.iter().map(|&hold| hold.to_owned()).collect(),
        at: T + at,
        after: T + at + 1,
        before: T + at - 1,
    };
    history.faults.clear();
    // It leaves one key, and then the other, which is not a return.
    history.sightings = vec![
        seen(KEYS[0], 1, &["hold:both"]),
        seen(KEYS[0], 10, &[]),
        seen(KEYS[1], 11, &["hold:both"]),
    ];
    assert_eq!(rules(&history), []);
    history.sightings.push(seen(KEYS[0], 12, &["hold:both"]));
    assert_eq!(rules(&history), [Rule::Returned]);
}

#[test]
fn one_of_several_that_is_gone_before_the_entry_is_found() {
    let ended = |reason| record(10, 1, What::Ended(Outcome::Lost(reason)));
    let waits = |reason| history(vec![on(KEY, vec![wants(0, 1), ended(reason)])]);
    assert_eq!(rules(&waits(Reason::WithAnother)), []);
    let mut gone = waits(Reason::Gone);
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

#[test]
fn permits_that_a_server_without_its_data_gives_anew_are_excused() {
    let given = |from| [0, 1, 2].map(|after| with_permit(from + after, from + 30));
    let mut met = given(0).to_vec();
    met.extend(given(10));
    let mut met = history(met);
    assert!(rules(&met).contains(&Rule::TooMany));
    met.faults = vec![taken(5)];
    assert_eq!(rules(&met), []);
    met.faults[0].target = Target::Key(KEY);
    assert!(rules(&met).contains(&Rule::TooMany));
    // This is one more permit than the server can give again.
    let late = 4 * TTL;
    let mut met = given(late).to_vec();
    met.push(with_permit(late + 3, late + 30));
    let mut met = history(met);
    met.faults = vec![taken(5)];
    assert_eq!(rules(&met), [Rule::TooMany]);
}

#[test]
fn a_writer_beside_a_permit_is_found() {
    let writer = |from| on(SEMAPHORE, section(from, from + 10, 1, 6));
    let met = |from| history(vec![with_permit(0, 10), writer(from)]);
    assert_eq!(rules(&met(11)), []);
    assert_eq!(rules(&met(9)), [Rule::Overlap]);
}
