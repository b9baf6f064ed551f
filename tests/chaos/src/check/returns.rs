//! P8: a hold that has been released does not return, however late one of its requests arrives.

use std::collections::{HashMap, HashSet};

use super::verdict::{Rule, Verdict};
use crate::history::History;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    // This is the time in which the lease of each hold certainly lasted.
    let mut leases: HashMap<(&str, &str), (u64, u64)> = HashMap::new();
    for (op, hold) in history.sections() {
        let whole = (hold.entered, hold.lease);
        let lease = leases.entry((&op.key, &hold.id)).or_insert(whole);
        lease.1 = hold.lease.max(lease.1);
    }
    let mut present: HashMap<(usize, &str), HashSet<&str>> = HashMap::new();
    // This is before the last inspection that still found them.
    let mut released: HashMap<(usize, &str, &str), u64> = HashMap::new();
    for sighting in &history.sightings {
        let (node, key) = (sighting.node, sighting.key);
        let now: HashSet<&str> = sighting.holds.iter().map(String::as_str).collect();
        let before = present.insert((node, key), now.clone()).unwrap_or_default();
        for hold in before.difference(&now) {
            // It did not expire, so it was released.
            let within = |(start, end): &(u64, u64)| *start <= sighting.at && sighting.after < *end;
            if leases.get(&(key, hold)).is_some_and(within) {
                released.insert((node, key, hold), sighting.before);
            }
        }
        for hold in now.difference(&before) {
            let Some(&since) = released.get(&(node, key, hold)) else {
                continue;
            };
            // A loss of data may remove the lock, and the tombstone.
            if !history.forgotten(key, since, sighting.at) {
                let late = (sighting.at - since) / 1_000_000;
                let what = format!("{hold} in {key}, {late} ms after its release");
                verdict.add(Rule::Returned, what);
            }
        }
    }
}
