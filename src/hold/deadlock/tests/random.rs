//! Random graphs. A walk finds a cycle if and only if there is one, and its result is a cycle.

use proptest::prelude::*;

use super::*;

const OWNERS: usize = 3;
const HOLDS: usize = 3;
const KEYS: usize = 5;

/// This is less than the longest cycle that is searched for.
const WAITS: usize = 8;

fn any_hold() -> impl Strategy<Value = HoldId> {
    (0..OWNERS, 0..HOLDS).prop_map(|(owner, number)| hold(owner, number))
}

/// A wait may be for any key, inside any holds. Now and then it is a field of its own key.
fn any_graph() -> impl Strategy<Value = Graph> {
    let holds = prop::collection::vec(any_hold(), 0..3);
    let keys = prop::collection::vec(holds, KEYS);
    let enclosing = prop::collection::vec((any_hold(), 0..KEYS), 1..3);
    let wait = (0..KEYS, enclosing, prop::bool::weighted(0.1));
    let waits = prop::collection::vec(wait, 1..=WAITS);
    (keys, waits).prop_map(|(mut keys, waits)| {
        let waits = waits.into_iter().enumerate();
        let waits = waits.map(|(at, (waits_for, enclosing, is_in))| {
            let id = hold(at % OWNERS, 10 + at);
            if is_in {
                keys[waits_for].push(id);
            }
            super::wait(id, waits_for, &enclosing)
        });
        let waits = waits.collect();
        Graph { keys, waits }
    })
}

impl Graph {
    fn held(&self, key: &str) -> &[HoldId] {
        &self.keys[key.parse::<usize>().expect("a key")]
    }

    fn is_wait(&self, wait: &EnclosedWait) -> bool {
        !self.held(&wait.key).contains(&wait.id)
    }

    /// Returns whether one wait cannot end before the other.
    fn blocks(&self, wait: &EnclosedWait, other: &EnclosedWait) -> bool {
        let mut holds = self.held(&wait.key).iter();
        self.is_wait(wait) && holds.any(|hold| other.is_enclosed_by(*hold))
    }

    /// Returns whether a wait cannot end before itself. Every path is tried.
    fn is_in_a_cycle(&self, from: usize) -> bool {
        let mut reached = vec![from];
        let mut at = 0;
        while at < reached.len() {
            let wait = &self.waits[reached[at]];
            if self.blocks(wait, &self.waits[from]) {
                return true;
            }
            for (next, other) in self.waits.iter().enumerate() {
                if self.blocks(wait, other) && !reached.contains(&next) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_finds_a_cycle_exactly_where_there_is_one(graph in any_graph()) {
        let first = Moment::first();
        for from in 0..graph.waits.len() {
            let (cycle, looks) = graph.walk(from, first);
            prop_assert_eq!(cycle.is_some(), graph.is_in_a_cycle(from), "{}: {:?}", from, cycle);
            prop_assert!(looks <= KEYS + OWNERS * (HOLDS + WAITS));
            if let Some(cycle) = cycle {
                let waits: Vec<_> = cycle.links.iter().map(|link| &link.wait).collect();
                prop_assert_eq!(waits[0], &graph.waits[from]);
                let next = waits.iter().cycle().skip(1);
                for (one, other) in waits.iter().zip(next) {
                    prop_assert!(graph.blocks(one, other), "{:?}", cycle);
                }
                let verdict = graph.second_walk(&cycle, first.now, first.after(9, 8));
                prop_assert_eq!(verdict, Verdict::Deadlock);
            }
        }
    }
}
