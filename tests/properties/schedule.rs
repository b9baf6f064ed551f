//! The schedule compared to a list that is searched.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::time::Instant;

use super::{Schedule, ScheduleSlot};

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Remove(usize),
    SetDue(usize, u64),
    Pop(u64),
    /// Each of them is due at an instant that depends on the value.
    Reschedule(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let due = 0u64..40;
    let at = 0usize..64;
    let step = prop_oneof![
        4 => due.clone().prop_map(Step::Push),
        2 => at.clone().prop_map(Step::Remove),
        2 => (at, due.clone()).prop_map(|(at, due)| Step::SetDue(at, due)),
        2 => due.clone().prop_map(Step::Pop),
        1 => due.prop_map(Step::Reschedule),
    ];
    vec(step, 0..120)
}

/// One value, with its slot, and the instant at which it is due.
type Listed = (u64, ScheduleSlot, Option<u64>);

fn moved(value: u64, by: u64) -> u64 {
    (value * 7 + by) % 40
}

proptest! {
    #[test]
    fn it_agrees_with_a_list(steps in steps()) {
        let zero = Instant::now();
        let at = |due: u64| zero + Duration::from_millis(due);
        let mut schedule = Schedule::new();
        let mut list: Vec<Listed> = Vec::new();
        for (value, step) in (0..).zip(steps) {
            match step {
                Step::Push(due) => {
                    let slot = schedule.push(value, at(due));
                    prop_assert!(list.iter().all(|(_, other, _)| *other != slot));
                    list.push((value, slot, Some(due)));
                }
                Step::Remove(index) if !list.is_empty() => {
                    let (value, slot, due) = list.swap_remove(index % list.len());
                    prop_assert_eq!(schedule.remove(slot), Some((value, due.is_some())));
                }
                Step::SetDue(index, due) if !list.is_empty() => {
                    let index = index % list.len();
                    list[index].2 = Some(due);
                    schedule.set_due(list[index].1, at(due));
                }
                Step::Pop(now) => {
                    let first = list.iter().filter_map(|(_, _, due)| *due).min();
                    let popped = schedule.pop_due(at(now));
                    prop_assert_eq!(popped.is_some(), first.is_some_and(|due| due <= now));
                    if let Some(slot) = popped {
                        let entry = list.iter_mut().find(|(_, other, _)| *other == slot);
                        let (_, _, due) = entry.unwrap();
                        prop_assert_eq!(*due, first);
                        *due = None;
                    }
                }
                Step::Reschedule(by) => {
                    schedule.reschedule(|value| at(moved(*value, by)));
                    for (value, _, due) in &mut list {
                        *due = due.map(|_| moved(*value, by));
                    }
                }
                Step::Remove(_) | Step::SetDue(..) => {}
            }
            for (value, slot, _) in &list {
                prop_assert_eq!(schedule.get(*slot), Some(value));
            }
            let first = list.iter().filter_map(|(_, _, due)| *due).min();
            prop_assert_eq!(schedule.earliest(), first.map(at));
            let mut soon: Vec<_> = schedule.due_by(at(20)).map(|(_, value)| *value).collect();
            soon.sort_unstable();
            let listed = list.iter().filter(|(_, _, due)| due.is_some_and(|due| due <= 20));
            let mut listed: Vec<_> = listed.map(|(value, _, _)| *value).collect();
            listed.sort_unstable();
            prop_assert_eq!(soon, listed);
            prop_assert_eq!(schedule.is_empty(), list.is_empty());
        }
    }
}
