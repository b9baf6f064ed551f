//! Many tasks, many locks, two processes.

use anyhow::Result;
use reentry::Locks;

use super::table::Table;
use crate::bench::{Bench, turns};
use crate::contestant::Shared;
use crate::contestants::classic::Classic;
use crate::crew::crew;
use crate::kind::Kind;
use crate::measures::{drain, handoff, throughput};
use crate::numbers::median;
use crate::spinner::Spinners;
use crate::worker::Job;

const KEYS: usize = 64;
const WAITERS: usize = 128;
/// The number of locks that are acquired and released, one after the other.
const LEFT: usize = 1_000;

async fn connect<const N: usize>(bench: &Bench, kinds: [Kind; N]) -> Result<Vec<(Kind, Shared)>> {
    let mut contestants = Vec::new();
    for kind in kinds {
        contestants.push((kind, kind.connect(&bench.server.url()).await?));
    }
    Ok(contestants)
}

/// Pairs per second of tasks with one key each.
pub(super) async fn throughput(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let contestants = connect(bench, [Kind::Classic, Kind::Reentry]).await?;
    let mut rates = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for turn in turns(contestants.len(), round) {
            let (kind, lock) = &contestants[turn];
            let rate = throughput::rate(*kind, lock, KEYS).await?;
            // The first round warms up.
            if round > 0 {
                rates[turn].push(rate);
            }
        }
    }
    table.add(
        &format!("{KEYS} tasks with a key each, pairs per s"),
        &[
            ("classic", median(&rates[0])),
            ("reentry", median(&rates[1])),
        ],
    );
    Ok(())
}

/// A queue of one process drains.
pub(super) async fn drain(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let kinds = [Kind::InProcessQueue, Kind::Reentry];
    let contestants = connect(bench, kinds).await?;
    let bare = Classic::connect(&bench.server.url()).await?;
    let mut times = vec![Vec::new(); contestants.len()];
    let mut trips = Vec::new();
    for round in 0..=rounds {
        trips.extend(drain::round_trips(&bare).await?);
        for turn in turns(contestants.len(), round) {
            let time = drain::drain(&contestants[turn].1, WAITERS, round).await?;
            if round > 0 {
                times[turn].push(time);
            }
        }
    }
    let trip = median(&trips);
    let values = |scale: f64| {
        let names = ["in-process-queue", "reentry"];
        let values = times.iter().map(|times| median(times) / scale);
        names.into_iter().zip(values).collect::<Vec<_>>()
    };
    table.add("a round trip, µs", &[("classic", trip)]);
    let figure = format!("{WAITERS} waiters drain, round trips per section");
    table.add(&figure, &values(trip));
    let figure = format!("{WAITERS} waiters drain, µs per section");
    table.add(&figure, &values(1.0));
    Ok(())
}

/// The time from a release in one process to the entry in another one.
pub(super) async fn hand_off(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let mut pairs = Vec::new();
    for kind in [Kind::Blpop, Kind::Reentry] {
        let key = format!("figures:{}", kind.name());
        let workers = crew(&bench.server.url(), kind, &Job::Obey { key }, 2).await?;
        pairs.push((workers, Vec::new()));
    }
    let _awake = Spinners::start()?;
    for round in 0..=rounds {
        for turn in turns(pairs.len(), round) {
            let (workers, times) = &mut pairs[turn];
            let time = handoff::hand_off(workers, round).await?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [blpop, reentry] = [0, 1].map(|at| median(&pairs[at].1));
    let values = [("blpop", blpop), ("reentry", reentry)];
    table.add("hand-off to another process, µs", &values);
    Ok(())
}

/// The keys that are left after many locks were acquired and released.
pub(super) async fn keys_left(bench: &Bench, table: &mut Table) -> Result<()> {
    let url = bench.server.url();
    let classic = Classic::connect(&url).await?;
    let locks = Locks::connect(&url).await?;
    let mut left = [0.0; 2];
    for (turn, left) in left.iter_mut().enumerate() {
        bench.server.ask::<String>(&["FLUSHALL"]).await?;
        for n in 0..LEFT {
            let key = format!("figures:{n}");
            if turn == 0 {
                classic.pair(&key).await?;
            } else {
                locks.with_lock(&key, async {}).await?;
            }
        }
        *left = bench.server.ask(&["DBSIZE"]).await?;
    }
    let [classic, reentry] = left;
    let figure = format!("keys left by {LEFT} locks");
    table.add(&figure, &[("classic", classic), ("reentry", reentry)]);
    Ok(())
}
