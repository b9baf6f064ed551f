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

/// Two sections that overlap.
fn met() -> History {
    let mut history = history(vec![section(0, 10, 1, 5), section(9, 20, 1, 6)]);
    history.topology = Topology::Sentinel;
    history
}

#[test]
fn an_overlap_is_excused_by_a_failover_of_its_node() {
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
fn a_failover_takes_no_lock_that_replicas_had_confirmed() {
    let mut history = met();
    history.confirm = true;
    history.faults = vec![failover(1, 2, 8)];
    assert_eq!(rules(&history), [Rule::Overlap]);
    history.faults.push(taken(5));
    assert_eq!(rules(&history), []);
    assert_eq!(all(&history).excused_by_failover, 0);
}
