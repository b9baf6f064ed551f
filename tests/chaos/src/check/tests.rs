//! Each kind of violation is found in artificial ledgers, and only a loss of data that may have caused it excuses it.

use super::verdict::Rule;
use super::*;
use crate::clock::SECOND;
use crate::crew::End;
use crate::fault::{Fault, Kind, Target};
use crate::ledger::{Life, Outcome, Reason, Record, What};
use crate::plan::{KEYS, SEMAPHORE};
use crate::sightings::Sighting;
use crate::topology::Topology;

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
    record(at, op, What::Step(Life::Valid(TTL)))
}

fn lost(at: u64, op: u64, reason: Reason) -> Record {
    record(at, op, What::Step(Life::Lost(reason)))
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

/// Two sections that overlap.
fn met() -> History {
    history(vec![section(0, 10, 1, 5), section(9, 20, 1, 6)])
}

#[test]
fn only_readers_may_overlap() {
    let apart = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 6)]);
    assert_eq!(rules(&apart), []);
    assert_eq!(rules(&met()), [Rule::Overlap]);
    let readers = || vec![reads(0, 10, 1, 5), reads(5, 20, 1, 5)];
    assert_eq!(rules(&history(readers())), []);
    let writer = [readers(), vec![section(15, 30, 1, 6)]].concat();
    assert_eq!(rules(&history(writer)), [Rule::Overlap]);
}

#[test]
fn a_stopped_worker_counts_as_inside_until_its_lease_ends() {
    for (next, found) in [(TTL - 1, vec![Rule::Overlap]), (TTL, vec![])] {
        let expired = lost(3 * TTL, 1, Reason::Expired);
        let stopped = vec![wants(0, 1), entered(0, 1, 5), expired];
        let mut history = history(vec![stopped, section(next, 2 * TTL, 1, 6)]);
        history.workers[0].1 = End::Killed;
        assert_eq!(rules(&history), found);
    }
}

#[test]
fn an_overlap_is_excused_only_where_data_was_lost() {
    let of = |target| Fault { target, ..taken(5) };
    let harmless = Kind::RestartWithData;
    for (fault, is_excused) in [
        (taken(5), true),
        (of(Target::Key(KEYS[1])), false),
        (taken(10), false),
        (
            Fault {
                kind: harmless,
                ..taken(5)
            },
            false,
        ),
    ] {
        let mut history = met();
        history.faults = vec![fault];
        assert_eq!(rules(&history).is_empty(), is_excused);
    }
}

/// A failover makes servers forget what they answered, unless replicas had confirmed it.
#[test]
fn an_overlap_is_excused_by_a_failover_of_its_node_without_confirmation() {
    let failover = |targets: &[&'static str]| Fault {
        end: T + 18 * SECOND,
        over: T + 8 * SECOND,
        target: Target::Keys(targets.to_vec()),
        forgets: vec![(T + 1, T + 2)],
        kind: Kind::PrimaryKilled,
        ..taken(0)
    };
    for (targets, confirm, found) in [
        (&[KEYS[1], KEY][..], false, vec![]),
        (&[KEYS[1]], false, vec![Rule::Overlap]),
        (&[KEY], true, vec![Rule::Overlap]),
    ] {
        let mut history = met();
        history.topology = Topology::Sentinel;
        history.confirm = confirm;
        history.faults = vec![failover(targets)];
        assert_eq!(rules(&history), found);
        assert_eq!(
            all(&history).excused_by_failover,
            usize::from(found.is_empty())
        );
    }
}

#[test]
fn one_holder_more_than_permits_is_found() {
    let permit = |from, to| {
        let mut records = reads(from, to, 1, 5);
        for record in &mut records {
            if let What::Wants { key, .. } | What::Entered { key, .. } = &mut record.what {
                SEMAPHORE.clone_into(key);
            }
        }
        records
    };
    for (from, found) in [(10, vec![]), (9, vec![Rule::TooMany])] {
        let others = [0, 1, 2].map(|at| permit(at, if at == 0 { 10 } else { 2 * TTL }));
        let all = [others.to_vec(), vec![permit(from, 2 * TTL)]].concat();
        assert_eq!(rules(&history(all)), found);
    }
}

#[test]
fn a_token_that_is_given_twice_or_out_of_order_is_found() {
    let twice = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 5)]);
    assert_eq!(rules(&twice), [Rule::TokenTwice]);
    let backward = history(vec![section(0, 10, 1, 5), section(11, 20, 1, 4)]);
    assert_eq!(rules(&backward), [Rule::TokenOrder]);
}

#[test]
fn a_lock_that_is_gone_without_a_cause_is_found() {
    let gone = || ends(10, 1, Outcome::Lost(Reason::Deleted));
    let inside = [vec![wants(0, 1), entered(0, 1, 5)], gone().to_vec()].concat();
    let before_its_entry = vec![wants(0, 1), gone()[1].clone()];
    for records in [inside, before_its_entry] {
        let mut history = history(vec![records]);
        assert_eq!(rules(&history), [Rule::GoneWithoutCause]);
        history.faults = vec![taken(5)];
        assert_eq!(rules(&history), []);
    }
}

#[test]
fn a_holder_that_never_learns_of_its_loss_is_found() {
    let mut history = history(vec![section(0, 2 * TTL, 1, 5)]);
    history.faults = vec![taken(TTL + 1)];
    assert_eq!(rules(&history), []);
    history.faults = vec![taken(TTL / 2)];
    assert_eq!(rules(&history), [Rule::NeverTold]);
}

#[test]
fn wrong_depths_and_outcomes_are_found() {
    let unexpected = Outcome::Unexpected(String::new());
    for (outcome, rule) in [
        (Outcome::Unavailable, Rule::ResultMasked),
        (unexpected, Rule::Unexpected),
    ] {
        let (wanted, stored) = (2, 1);
        let depth = record(9, 1, What::Depth { wanted, stored });
        let mut records = vec![wants(0, 1), entered(0, 1, 5), valid(9, 1), depth];
        records.extend(ends(10, 1, outcome));
        assert_eq!(rules(&history(vec![records])), [Rule::Depth, rule]);
    }
}

#[test]
fn a_worker_that_hangs_or_gets_nothing_is_found() {
    let mut history = history(vec![section(0, 10, 1, 5)]);
    history.workers[0].1 = End::Badly;
    history.calm.pop();
    history.leftovers = vec![KEY.to_owned()];
    let found = [Rule::Worker, Rule::Worker, Rule::Leftover];
    assert_eq!(rules(&history), found);
}

#[test]
fn a_wait_without_an_end_is_found() {
    let late = record(7 * SECOND, 1, What::Ended(Outcome::Timeout));
    let mut late = history(vec![vec![wants(0, 1), late]]);
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
    history.sightings = vec![
        seen(0, 1, Some("hold:5")),
        seen(10, 11, None),
        seen(12, 13, Some("hold:5")),
    ];
    assert_eq!(rules(&history), [Rule::Returned]);
    // A lock that has expired was not released, and a late request may take it again until it is.
    history.sightings[1].after = T + 2 * TTL;
    assert_eq!(rules(&history), []);
}
