//! Tasks of several processes that acquire two locks in any order, on a bad network. No deadlock lasts, and no caller
//! must give way that was not part of one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::climate::{Climate, millis, one_in};
use super::ledger::Ledger;
use super::link::Link;
use super::run::simulated;
use super::server::Server;
use crate::base::error::Blocked;
use crate::base::id::OwnerId;
use crate::base::sync::Mutex;
use crate::hold::scope::current_owner;
use crate::{LockError, Locks};

const KEYS: [&str; 3] = ["a", "b", "c"];

const SEEDS: u64 = 20;

/// The time for which faults happen.
const TROUBLE: Duration = Duration::from_secs(20);

/// The maximum time until all tasks have completed after that. A wait has no limit of its own.
const PATIENCE: Duration = Duration::from_secs(100);

const RESPONSE_TIMEOUT: Duration = Duration::from_millis(300);

/// A wait inside a lock, from its beginning on.
#[derive(Debug)]
struct Waited {
    owner: OwnerId,
    holds: &'static str,
    waits_for: &'static str,
    from: Instant,
    to: Option<Instant>,
}

/// All waits inside locks so far.
#[derive(Debug, Default)]
struct Waits(Mutex<Vec<Waited>>);

impl Waits {
    /// Notes a wait. It ends when the returned value is dropped.
    fn begin(&self, holds: &'static str, waits_for: &'static str) -> impl Drop {
        let mut all = self.0.lock();
        all.push(Waited {
            owner: current_owner().expect("a lock around it"),
            holds,
            waits_for,
            from: Instant::now(),
            to: None,
        });
        let (waits, at) = (self, all.len() - 1);
        Ended { waits, at }
    }

    /// Returns whether all waits of a cycle existed at one instant.
    fn were_at_once(&self, cycle: &[Blocked]) -> bool {
        let all = self.0.lock();
        let waited = |blocked: &Blocked| {
            all.iter().rev().find(|waited| {
                let keys = [waited.holds, waited.waits_for] == [&blocked.holds, &blocked.waits_for];
                waited.owner.to_string() == blocked.owner && keys
            })
        };
        let cycle: Option<Vec<_>> = cycle.iter().map(waited).collect();
        cycle.is_some_and(|cycle| {
            let begun = cycle.iter().map(|waited| waited.from).max();
            let ends = cycle.iter().filter_map(|waited| waited.to);
            ends.min().is_none_or(|end| begun <= Some(end))
        })
    }
}

struct Ended<'a> {
    waits: &'a Waits,
    at: usize,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.waits.0.lock()[self.at].to = Some(Instant::now());
    }
}

/// Acquires the locks one after the other. Now and then a wait is given up. Returns how often it had to give way.
async fn sections(locks: &Locks, waits: &Waits) -> u32 {
    let mut deadlocks = 0;
    for _ in 0..6 {
        sleep(millis(0..=300)).await;
        let at = fastrand::usize(0..KEYS.len());
        let (outer, inner) = (
            KEYS[at],
            KEYS[(at + fastrand::usize(1..KEYS.len())) % KEYS.len()],
        );
        let gives_up = one_in(2);
        let patience = if gives_up {
            millis(100..=600)
        } else {
            10 * PATIENCE
        };
        let body = async {
            sleep(millis(0..=100)).await;
            let waited = {
                let _waits = waits.begin(outer, inner);
                let section = locks
                    .lock(inner)
                    .wait(Duration::MAX)
                    .run(sleep(millis(0..=30)));
                timeout(patience, section).await
            };
            if waited.is_err() {
                // It waits for nothing, and others wait for it.
                sleep(millis(0..=2_000)).await;
            }
            waited.unwrap_or(Ok(()))
        };
        match locks.lock(outer).wait(Duration::MAX).try_run(body).await {
            Err(LockError::Deadlock { cycle, .. }) => {
                assert!(waits.were_at_once(&cycle), "{cycle:?} of {waits:?}");
                deadlocks += 1;
            }
            Ok(()) | Err(LockError::Lost { .. } | LockError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    deadlocks
}

/// Returns the number of deadlocks.
async fn live(climate: Climate) -> u32 {
    let (server, ledger) = (Arc::new(Server::new()), Ledger::new(climate));
    let (end, waits) = (Instant::now() + TROUBLE, Waits::default());
    let links: Vec<_> = (0..3)
        .map(|_| Link::new(&server, &ledger, climate, RESPONSE_TIMEOUT))
        .collect();
    let trouble = async {
        while climate.network && Instant::now() < end {
            sleep(millis(100..=2_000)).await;
            match fastrand::usize(0..=links.len()) {
                at if at < links.len() => links[at].cut(true, one_in(2)),
                _ => server.block(millis(50..=700)),
            }
        }
        server.calm_for(10 * PATIENCE);
    };
    let processes: Vec<_> = links
        .iter()
        .map(|link| {
            let builder = Locks::builder("memory:").ttl(Duration::from_secs(5));
            let builder = builder.__heartbeat(Duration::from_millis(200));
            builder.build_on_wire(Arc::new(link.clone()), RESPONSE_TIMEOUT)
        })
        .collect();
    let tasks = processes.iter().flat_map(|locks| [locks; 2]);
    let tasks = join_all(tasks.map(|locks| sections(locks, &waits)));
    let all = async { tokio::join!(tasks, trouble).0 };
    let deadlocks = timeout(TROUBLE + PATIENCE, all).await;
    let deadlocks = deadlocks.unwrap_or_else(|_| panic!("a deadlock lasts: {waits:?}"));
    deadlocks.into_iter().sum()
}

/// Runs every seed in this climate.
fn survive(climate: Climate) {
    let mut deadlocks = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        deadlocks += simulated(seed, live(climate));
    }
    println!("{deadlocks} deadlocks");
    assert!(deadlocks > 0);
}

#[test]
fn no_deadlock_lasts_in_calm() {
    survive(Climate::CALM);
}

#[test]
fn no_deadlock_lasts_on_a_bad_network_and_none_is_imagined() {
    survive(Climate {
        messages: true,
        network: true,
        ..Climate::CALM
    });
}
