//! A waiter that must give way was part of a cycle that existed at one instant. This is true for every order of events
//! of the model. It is not true if any one of four rules is broken.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::model::{Broken, Plan, State};

const fn plan(owner: usize, keys: &'static [usize]) -> Plan {
    Plan {
        owner,
        inside: None,
        keys,
        may_be_dropped: false,
        walks: false,
    }
}

/// Two branches take the same keys in different orders, and one of them may give up.
const ONE_GIVES_UP: [Plan; 2] = [
    Plan {
        may_be_dropped: true,
        ..plan(0, &[0, 1])
    },
    Plan {
        walks: true,
        ..plan(1, &[1, 0])
    },
];

/// A branch inside key 0 wants key 1, and may be dropped. Its call graph stays in key 0.
const A_BRANCH_IS_DROPPED: [Plan; 2] = [
    Plan {
        inside: Some(0),
        may_be_dropped: true,
        ..plan(0, &[1])
    },
    Plan {
        walks: true,
        ..plan(1, &[1, 0])
    },
];

/// One owner holds key 0 in one branch. In another branch it holds key 2 and wants key 1.
const TWO_BRANCHES: [Plan; 3] = [
    plan(0, &[0]),
    plan(0, &[2, 1]),
    Plan {
        walks: true,
        ..plan(1, &[1, 0])
    },
];

/// The result of a search among all states.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    victims: usize,
    wrong: usize,
}

/// Visits every state. With a broken rule, it stops at the first wrong one.
fn search(plans: &[Plan], broken: Option<Broken>) -> Found {
    let mut found = Found::default();
    let (hasher, mut known) = (RandomState::new(), HashSet::new());
    let mut todo = vec![State::new(plans)];
    while let Some(state) = todo.pop() {
        found.states += 1;
        if state.victim.is_some() {
            found.victims += 1;
            found.wrong += usize::from(state.is_wrong());
            if broken.is_some() && found.wrong > 0 {
                break;
            }
            continue;
        }
        let next = state.next(plans, broken).into_iter();
        todo.extend(next.filter(|state| known.insert(hasher.hash_one(state))));
    }
    println!("{plans:?} {broken:?}: {found:?}");
    found
}

#[test]
fn a_victim_is_part_of_a_cycle_whatever_happens_meanwhile() {
    for plans in [&ONE_GIVES_UP[..], &A_BRANCH_IS_DROPPED] {
        let found = search(plans, None);
        assert!(found.wrong == 0 && found.victims > 0, "{found:?}");
    }
}

#[test]
fn branches_of_one_call_graph_are_no_deadlock() {
    assert_eq!(search(&TWO_BRANCHES, None).victims, 0);
}

#[test]
fn without_any_of_the_four_rules_a_victim_is_wrong() {
    for (broken, plans) in [
        (Broken::SecondWalk, &ONE_GIVES_UP[..]),
        (Broken::Stamps, &A_BRANCH_IS_DROPPED),
        (Broken::Lateness, &A_BRANCH_IS_DROPPED),
        (Broken::EdgesOfFields, &TWO_BRANCHES),
    ] {
        let found = search(plans, Some(broken));
        assert!(found.wrong > 0, "{broken:?}: {found:?}");
    }
}
