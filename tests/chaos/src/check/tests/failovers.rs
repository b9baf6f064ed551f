//! The effects that a failover excuses: where and when it took place. It never excuses data that replicas had
//! confirmed.

use super::*;
use crate::topology::Topology;

/// A failover in which servers forget what they answered from `from` to `to`. It ends at `over`, and all nodes are
/// healthy again ten seconds later.
fn failover(from: u64, to: u64, over: u64) -> Fault {
    Fault {
        start: T + from,
        end: T + over + 10 * SECOND,
        over: T + over,
        forgets: vec![(T + from, T + to)],
        kind: Kind::PrimaryKilled,
        ..taken(0)
    }
}

/// The holders of the lock on a node.
fn seen(node: usize, at: u64, hold: Option<&str>) -> Sighting {
    Sighting {
        node,
        key: KEY,
        holds: hold.map(str::to_owned).into_iter().collect(),
        at: T + at,
        after: T + at + 1,
        before: T + at - 1,
    }
}

/// Two sections that overlap.
fn met() -> History {
    let mut history = history(vec![section(0, 10, 1, 5), section(9, 20, 1, 6)]);
    history.topology = Topology::Sentinel;
    history
}

#[test]
fn two_at_once_are_excused_by_a_failover_of_their_node() {
    let mut history = met();
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults = vec![failover(1, 2, 8)];
    assert_eq!(rules(&history), []);
    let verdict = all(&history);
    assert_eq!((verdict.excused, verdict.excused_by_failover), (1, 1));
    history.faults[0].target = Target::Keys(vec![KEYS[1]]);
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults[0].target = Target::Keys(vec![KEYS[1], KEY]);
    assert_eq!(rules(&history), []);
}

#[test]
fn what_is_taken_before_or_after_the_servers_forget_is_not_excused() {
    let mut history = met();
    // It continues for a long time after that, as any failover does.
    history.faults = vec![failover(10, 11, 12)];
    history.faults[0].start = T;
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults[0].forgets = Vec::new();
    assert_eq!(rules(&history), [Rule::Overlap]);
    let lease = history.lease();
    history.faults[0].forgets = vec![(T - lease - 2, T - lease - 1)];
    assert_eq!(rules(&history), [Rule::Overlap]);
}

#[test]
fn a_failover_takes_no_lock_that_replicas_had_confirmed() {
    let mut history = met();
    history.confirm = true;
    history.faults = vec![failover(1, 2, 8)];
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults.push(taken(5));
    assert_eq!(rules(&history), []);
    assert_eq!(all(&history).excused_by_failover, 0);
}

#[test]
fn a_depth_and_a_release_are_never_confirmed() {
    let mut records = section(0, 10, 1, 5);
    let (wanted, stored) = (2, 1);
    records.insert(2, record(9, 1, What::Depth { wanted, stored }));
    let mut history = history(vec![records]);
    history.confirm = true;
    history.sightings = vec![
        seen(0, 1, Some("hold:5")),
        seen(0, 11, None),
        seen(0, 21, Some("hold:5")),
    ];
    assert_eq!(rules(&history), [Rule::Returned, Rule::Depth]);
    history.faults = vec![failover(5, 12, 15)];
    assert_eq!(rules(&history), []);
}

#[test]
fn a_stall_after_a_failover_is_found_while_the_nodes_settle() {
    let mut waits = vec![wants(2, 1)];
    waits.extend(section(30 * SECOND, 30 * SECOND, 1, 6).split_off(1));
    if let What::Wants { patience, .. } = &mut waits[0].what {
        *patience = 30 * SECOND;
    }
    let mut history = history(vec![section(0, 1, 1, 5), waits]);
    history.topology = Topology::Sentinel;
    history.faults = vec![failover(1, 2, 13 * SECOND)];
    assert_eq!(rules(&history), []);
    history.faults = vec![failover(1, 2, 11 * SECOND)];
    assert_eq!(rules(&history), [Rule::Stall]);
}
