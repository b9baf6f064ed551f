//! P1, P3, P7 and P11 when several processes contend while the primary is replaced.
//!
//! A lock is granted by one server, and data that this server has not replicated is lost with it. So two sections may
//! overlap from the outage on until the processes have left the old primary, and the resource may reject one of them.
//! Before and after that, this may happen only if the caller learns that the lock was lost. Tokens grow all the time,
//! because the servers have one clock. A release may be lost as well: then the lock is free on the new primary when its
//! lease has expired.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::ground::{PATIENCE, builder, until_taken_in};
use crate::support::{SentinelSet, eventually, processes, within};
use reentry::{Locks, held};
use tokio::task::{JoinSet, yield_now};

const KEYS: [&str; 3] = ["order:1", "order:2", "order:3"];
const PROCESSES: usize = 3;

/// The number of sections of each task after the failover.
const AFTER: usize = 5;

#[derive(Clone, Debug)]
struct Section {
    key: &'static str,
    token: u64,
    entered: Instant,
    left: Instant,
    /// Whether the resource rejected it.
    is_refused: bool,
    /// Whether its caller learned afterwards that the lock was lost in the meantime.
    is_lost: bool,
}

/// The resource to which the sections write, which accepts no smaller token after a greater one. It also has the
/// sections so far.
#[derive(Debug, Default)]
struct Resource {
    greatest: Mutex<HashMap<&'static str, u64>>,
    sections: Mutex<Vec<Section>>,
    /// The number of them that were lost, according to the errors of their callers.
    lost: AtomicUsize,
}

impl Resource {
    /// Returns whether it accepts the write.
    fn write(&self, key: &'static str, token: u64) -> bool {
        let mut greatest = self.greatest.lock().unwrap();
        let greatest = greatest.entry(key).or_default();
        let takes = token >= *greatest;
        *greatest = token.max(*greatest);
        takes
    }

    async fn section(&self, key: &'static str) -> Section {
        let lock = held(key).unwrap();
        let token = u64::from(lock.fencing_token());
        let entered = Instant::now();
        let mut is_refused = false;
        for _ in 0..3 {
            is_refused |= !self.write(key, token);
            yield_now().await;
        }
        Section {
            key,
            token,
            entered,
            left: Instant::now(),
            is_refused,
            is_lost: lock.is_lost(),
        }
    }

    async fn visit(&self, locks: &Locks, key: &'static str) {
        let mut seen = Vec::new();
        let nested = async {
            seen.push(self.section(key).await);
            locks
                .with_lock(key, async { seen.push(self.section(key).await) })
                .await
        };
        let entered = locks.with_lock(key, nested).await;
        let is_lost = match entered.and_then(|nested| nested) {
            Ok(()) => false,
            Err(error) if error.is_lost() => true,
            Err(error) => panic!("{error:?}"),
        };
        self.lost.fetch_add(usize::from(is_lost), Ordering::Relaxed);
        let sections = seen.into_iter().map(|section| Section {
            is_lost: is_lost || section.is_lost,
            ..section
        });
        self.sections.lock().unwrap().extend(sections);
    }

    /// Checks that there is no violation except those during the outage, whose beginning and end are passed.
    fn check(&self, from: Instant, to: Instant) {
        let mut sections = self.sections.lock().unwrap().clone();
        sections.sort_by_key(|section| section.entered);
        let is_excused = |one: &Section| one.is_lost || (one.left >= from && one.entered <= to);
        for key in KEYS {
            let of_key: Vec<_> = sections.iter().filter(|it| it.key == key).collect();
            assert!(!of_key.is_empty());
            for (index, one) in of_key.iter().enumerate() {
                let is_fine = !one.is_refused || is_excused(one);
                assert!(is_fine, "refused under a valid lease: {one:?}");
                for other in &of_key[index + 1..] {
                    let meets = other.entered < one.left;
                    let is_fine =
                        !meets || other.token == one.token || is_excused(one) || is_excused(other);
                    assert!(is_fine, "an overlap: {one:?} {other:?}");
                    let is_ordered = meets || one.token <= other.token;
                    assert!(is_ordered, "tokens: {one:?} {other:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn processes_contend_over_a_planned_failover() {
    let set = SentinelSet::start().await;
    // It is longer than the failover, and short enough to wait for its end.
    let lease = Duration::from_secs(8);
    let processes: [Locks; PROCESSES] = processes(&builder(&set).ttl(lease)).await;
    let resource = Arc::new(Resource::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for (number, locks) in processes.iter().enumerate() {
        for (shift, key) in KEYS.into_iter().enumerate() {
            let other = KEYS[(shift + number) % KEYS.len()];
            let (locks, resource) = (locks.clone(), Arc::clone(&resource));
            let is_over = Arc::clone(&is_over);
            tasks.spawn(async move {
                let mut after = 0;
                while after < AFTER {
                    after += usize::from(is_over.load(Ordering::Relaxed));
                    resource.visit(&locks, key).await;
                    resource.visit(&locks, other).await;
                }
            });
        }
    }
    let count = || resource.sections.lock().unwrap().len();
    let all_keys = async || count() > 100;
    eventually(PATIENCE, "they contend", all_keys).await;

    let from = Instant::now();
    let new = &set.nodes[set.failover().await];
    for locks in &processes {
        until_taken_in(new, locks).await;
    }
    let to = Instant::now();
    is_over.store(true, Ordering::Relaxed);
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(PATIENCE, "every task comes through", all).await;
    resource.check(from, to);
    // Each of them had one lock at most, and one waiter of each may have been let in on the old primary.
    let lost = resource.lost.load(Ordering::Relaxed);
    assert!(lost <= 2 * PROCESSES * KEYS.len(), "{lost} are lost");
    // If the release of a hold with a nested entry was lost, the number of its depth remains for a while.
    let is_number = |key: &String| key.starts_with("reentry:entries:");
    let free = async || new.leftovers().await.iter().all(is_number);
    eventually(PATIENCE, "all locks are free", free).await;
}
