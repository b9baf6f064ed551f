//! Every check finds its violation, in artificial ledgers, and nothing in a good one.

use super::verdict::Rule;
use super::*;
use crate::clock::SECOND;
use crate::crew::End;
use crate::fault::{Fault, Kind, Target};
use crate::ledger::{Answer, Life, Outcome, Reason, Record, What};
use crate::plan::KEYS;
use crate::resource::Write;
use crate::sightings::Sighting;

mod failovers;
mod several;

const KEY: &str = KEYS[0];
/// The lease in which everything happens.
const TTL: u64 = SECOND;
/// Its beginning, which leaves time for a fault before it.
const T: u64 = 100 * SECOND;

fn record(at: u64, op: u64, what: What) -> Record {
    Record {
        at: T + at,
        op,
        what,
    }
}

fn wants(at: u64, op: u64) -> Record {
    let key = KEY.to_owned();
    let patience = SECOND;
    let wants = What::Wants {
        key,
        patience,
        together: false,
    };
    record(at, op, wants)
}

fn entered(at: u64, op: u64, token: u64) -> Record {
    let entered = What::Entered {
        key: KEY.to_owned(),
        token,
        hold: format!("hold:{token}"),
        ttl: TTL,
        shares: false,
        life: Life::Valid(TTL),
    };
    record(at, op, entered)
}

fn valid(at: u64, op: u64) -> Record {
    let life = Life::Valid(TTL);
    record(at, op, What::Step { life, write: None })
}

fn lost(at: u64, op: u64, reason: Reason) -> Record {
    let life = Life::Lost(reason);
    record(at, op, What::Step { life, write: None })
}

fn ends(at: u64, op: u64, outcome: Outcome) -> [Record; 2] {
    let finished = true;
    [
        record(at, op, What::Left { finished }),
        record(at, op, What::Ended(outcome)),
    ]
}

/// A section without a fault.
fn section(from: u64, to: u64, op: u64, token: u64) -> Vec<Record> {
    let mut records = vec![wants(from, op), entered(from, op, token), valid(to, op)];
    records.extend(ends(to, op, Outcome::Done));
    records
}

/// The section of a reader.
fn reads(from: u64, to: u64, op: u64, token: u64) -> Vec<Record> {
    let mut records = section(from, to, op, token);
    for record in &mut records {
        if let What::Entered { shares, .. } = &mut record.what {
            *shares = true;
        }
    }
    records
}

fn history(workers: Vec<Vec<Record>>) -> History {
    let mut history = History {
        start: T,
        healed: T + 100 * SECOND,
        ..History::default()
    };
    for (number, records) in workers.into_iter().enumerate() {
        let name = format!("w{number}");
        history.read(&name, records);
        let calm = KEYS.map(|key| (name.clone(), key.to_owned(), T));
        history.calm.extend(calm);
        history.workers.push((name, End::Well));
    }
    history
}

fn rules(history: &History) -> Vec<Rule> {
    all(history)
        .violations
        .iter()
        .map(|violation| violation.rule)
        .collect()
}

fn taken(at: u64) -> Fault {
    Fault {
        kind: Kind::FlushAll,
        start: T + at,
        end: T + at + 1,
        over: T + at + 1,
        target: Target::All,
        forgets: Vec::new(),
        note: String::new(),
    }
}

#[test]
fn consecutive_sections_are_no_violation() {
    let history = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 6)]);
    assert_eq!(rules(&history), []);
}

#[test]
fn overlapping_writers_are_found() {
    let history = history(vec![section(0, 10, 1, 5), section(9, 20, 1, 6)]);
    assert_eq!(rules(&history), [Rule::Overlap]);
}

#[test]
fn overlapping_readers_are_allowed_and_a_writer_is_found() {
    let readers = || vec![reads(0, 10, 1, 5), reads(5, 20, 1, 5)];
    assert_eq!(rules(&history(readers())), []);
    for writer in [section(15, 30, 1, 6), section(7, 8, 1, 6)] {
        let mut all = readers();
        all.push(writer);
        let rules = rules(&history(all));
        assert!(!rules.is_empty() && rules.iter().all(|rule| *rule == Rule::Overlap));
    }
}

#[test]
fn a_stopped_worker_counts_as_inside_until_its_lease_ends() {
    let stopped = |lost_at| {
        vec![
            wants(0, 1),
            entered(0, 1, 5),
            lost(lost_at, 1, Reason::Expired),
        ]
    };
    let mut early = history(vec![stopped(3 * TTL), section(TTL - 1, TTL, 1, 6)]);
    early.workers[0].1 = End::Killed;
    assert_eq!(rules(&early), [Rule::Overlap]);
    let mut late = history(vec![stopped(3 * TTL), section(TTL, 2 * TTL, 1, 6)]);
    late.workers[0].1 = End::Killed;
    assert_eq!(rules(&late), []);
}

#[test]
fn an_overlap_is_excused_only_where_data_was_lost() {
    let mut history = history(vec![section(0, 10, 1, 5), section(9, 20, 1, 6)]);
    history.faults = vec![taken(5)];
    assert_eq!(rules(&history), []);
    history.faults[0].target = Target::Key(KEYS[1]);
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults = vec![taken(10)];
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults[0].kind = Kind::RestartWithData;
    history.faults[0].start = T + 5;
    assert_eq!(rules(&history), [Rule::Overlap]);
}

#[test]
fn a_token_that_is_given_twice_or_out_of_order_is_found() {
    let twice = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 5)]);
    assert_eq!(rules(&twice), [Rule::TokenTwice]);
    let mut backward = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 4)]);
    assert_eq!(rules(&backward), [Rule::TokenOrder]);
    // A server that forgot its tokens counts on from its clock, so there is no excuse.
    backward.faults = vec![taken(11 + TTL)];
    assert_eq!(rules(&backward), [Rule::TokenOrder]);
}

#[test]
fn a_stale_write_that_is_accepted_is_found() {
    let mut history = history(vec![]);
    let write = |token, answer| Write {
        reads: false,
        key: KEY.to_owned(),
        token,
        writer: String::new(),
        answer,
    };
    history.writes = vec![write(5, Answer::Accepted), write(4, Answer::Refused)];
    assert_eq!(rules(&history), []);
    history.writes.push(write(4, Answer::Accepted));
    assert_eq!(rules(&history), [Rule::StaleWrite]);
}

#[test]
fn a_refusal_under_a_valid_lease_is_found() {
    let step = |life| {
        let write = Some(Answer::Refused);
        let mut records = vec![
            wants(0, 1),
            entered(0, 1, 5),
            record(5, 1, What::Step { life, write }),
        ];
        records.extend(ends(10, 1, Outcome::Done));
        history(vec![records])
    };
    assert_eq!(rules(&step(Life::Valid(TTL))), [Rule::ValidRefused]);
    assert_eq!(rules(&step(Life::Lost(Reason::Expired))), []);
}

#[test]
fn a_lock_that_is_gone_without_a_cause_is_found() {
    let mut records = vec![wants(0, 1), entered(0, 1, 5), lost(9, 1, Reason::Deleted)];
    records.extend(ends(10, 1, Outcome::Lost(Reason::Deleted)));
    let mut history = history(vec![records]);
    assert_eq!(rules(&history), [Rule::GoneWithoutCause]);
    history.faults = vec![taken(5)];
    assert_eq!(rules(&history), []);
    // A release that is executed twice may meet itself, and no other request may.
    history.faults[0].kind = Kind::Twice;
    assert_eq!(rules(&history), [Rule::GoneWithoutCause]);
    let mut records = section(0, 10, 1, 5);
    records.pop();
    records.push(record(12, 1, What::Ended(Outcome::Lost(Reason::Deleted))));
    let mut released = self::history(vec![records]);
    assert_eq!(rules(&released), [Rule::GoneWithoutCause]);
    released.faults = vec![taken(11)];
    released.faults[0].kind = Kind::Twice;
    assert_eq!(rules(&released), []);
}

#[test]
fn a_holder_that_never_learns_of_its_loss_is_found() {
    let mut history = history(vec![section(0, 2 * TTL, 1, 5)]);
    history.faults = vec![taken(TTL + 1)];
    assert_eq!(rules(&history), []);
    history.faults = vec![taken(TTL / 2)];
    assert_eq!(rules(&history), [Rule::NeverTold]);
    // The old primary may have been flushed, which considers itself a primary until it is reconfigured.
    history.faults.push(Fault {
        kind: Kind::PrimaryShutDown,
        ..taken(TTL / 2)
    });
    assert_eq!(rules(&history), []);
}

#[test]
fn a_wrong_depth_and_a_masked_result_are_found() {
    let mut records = vec![wants(0, 1), entered(0, 1, 5), valid(9, 1)];
    let (wanted, stored) = (2, 1);
    records.push(record(9, 1, What::Depth { wanted, stored }));
    records.extend(ends(10, 1, Outcome::Unavailable));
    assert_eq!(
        rules(&history(vec![records])),
        [Rule::Depth, Rule::ResultMasked]
    );
}

#[test]
fn a_worker_that_hangs_or_gets_nothing_is_found() {
    let mut history = history(vec![section(0, 10, 1, 5)]);
    history.workers[0].1 = End::Badly;
    history.calm.pop();
    history.leftovers = vec![KEY.to_owned()];
    assert_eq!(
        rules(&history),
        [Rule::Worker, Rule::Worker, Rule::Leftover]
    );
}

#[test]
fn a_wait_without_an_end_is_found() {
    let mut late = vec![wants(0, 1)];
    late.push(record(7 * SECOND, 1, What::Ended(Outcome::Timeout)));
    let mut late = history(vec![late]);
    assert_eq!(rules(&late), [Rule::Overstayed]);
    late.faults = vec![Fault {
        kind: Kind::Stop,
        target: Target::Worker("w0".to_owned()),
        end: T + 3 * SECOND,
        ..taken(0)
    }];
    assert_eq!(rules(&late), []);
    let never = history(vec![vec![wants(0, 1)]]);
    assert_eq!(rules(&never), [Rule::Overstayed]);
}

#[test]
fn a_stall_without_a_fault_is_found() {
    let mut waits = vec![wants(2, 1)];
    waits.extend(section(7 * SECOND, 7 * SECOND, 1, 6).split_off(1));
    let mut history = history(vec![section(0, 1, 1, 5), waits]);
    assert!(rules(&history).contains(&Rule::Stall));
    history.faults = vec![taken(3 * SECOND)];
    assert!(!rules(&history).contains(&Rule::Stall));
}

#[test]
fn a_hold_that_returns_after_its_end_is_found() {
    let mut history = history(vec![section(0, 10, 1, 5)]);
    let seen = |before, at, hold: Option<&str>| Sighting {
        node: 0,
        key: KEY,
        holds: hold.map(str::to_owned).into_iter().collect(),
        at: T + at,
        after: T + at + 1,
        before: T + before,
    };
    history.sightings = vec![seen(0, 1, Some("hold:5")), seen(10, 11, None)];
    assert_eq!(rules(&history), []);
    history.sightings.push(seen(12, 13, Some("hold:5")));
    assert_eq!(rules(&history), [Rule::Returned]);
    history.faults = vec![taken(11)];
    assert_eq!(rules(&history), []);
    // A lock that has expired was not released, and a late request may take it again until it is.
    history.faults.clear();
    history.sightings[1].after = T + 2 * TTL;
    assert_eq!(rules(&history), []);
    // The same is true for a lock that had expired before the response arrived.
    history.sightings[1] = seen(0, 1, None);
    history.sightings[1].at = T - 1;
    assert_eq!(rules(&history), []);
}
