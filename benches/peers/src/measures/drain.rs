//! How fast does a queue of one process drain?
//!
//! A lock is held, tasks queue up, and the lock is released. The result is the time until each task has had one empty
//! section, divided by the number of sections. Controls: one bare EVALSHA round trip, and the queue in front of the
//! bare scripts, which needs two round trips for each section. Commands are counted in a separate round.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use crate::bench::{Bench, turns, uneven_pause};
use crate::contestant::Shared;
use crate::contestants::classic::Classic;
use crate::kind::Kind;
use crate::monitor::Monitor;
use crate::numbers::{median, micros};
use crate::report::Report;

/// A time in µs. A client that needs longer for a round has only one round.
const SLOW: f64 = 1e6;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of waiting tasks
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32, 128])]
    pub(crate) tasks: Vec<usize>,
    /// Rounds for each size
    #[arg(long, default_value_t = 15)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let mut report = bench.report("drain");
    for &tasks in &args.tasks {
        one_size(bench, &mut report, tasks, args.rounds).await?;
    }
    report.print();
    Ok(())
}

/// One contestant and its results so far.
struct Entrant {
    kind: Kind,
    lock: Shared,
    commands: f64,
    times: Vec<f64>,
}

async fn one_size(bench: &Bench, report: &mut Report, tasks: usize, rounds: usize) -> Result<()> {
    let floor = Kind::InProcessQueue;
    let mut entrants = Vec::new();
    for (kind, lock) in bench.connect(Kind::waits, floor).await? {
        entrants.push(count(bench, kind, lock, tasks).await?);
    }
    let bare = Classic::connect(&bench.server.url()).await?;
    let mut trips = Vec::new();
    for round in 0..rounds {
        trips.extend(round_trips(&bare).await?);
        for turn in turns(entrants.len(), round) {
            let Entrant { lock, times, .. } = &mut entrants[turn];
            if times.first().is_none_or(|time| time * tasks as f64 <= SLOW) {
                times.push(drain(lock, tasks, round).await?);
            }
        }
    }
    let setting = format!("{tasks} tasks");
    let trip = median(&trips);
    report.add(
        &setting,
        "(one round trip)",
        &[("time", "µs/section", trip)],
    );
    let floor = entrants.iter().find(|entrant| entrant.kind == floor);
    let floor = floor.map_or(f64::NAN, |entrant| median(&entrant.times));
    for entrant in &entrants {
        let time = median(&entrant.times);
        let values = [
            ("time", "µs/section", time),
            ("round trips", "per section", time / trip),
            ("ratio to in-process-queue", "", time / floor),
            ("commands", "per section", entrant.commands),
        ];
        report.add(&setting, &entrant.kind.name(), &values);
    }
    Ok(())
}

/// The first round, which is also the warm-up. Its time is used only if MONITOR makes no difference.
async fn count(bench: &Bench, kind: Kind, lock: Shared, tasks: usize) -> Result<Entrant> {
    let monitor = Monitor::start(&bench.server)?;
    let time = drain(&lock, tasks, 0).await?;
    let slow = time * tasks as f64 > SLOW;
    Ok(Entrant {
        kind,
        lock,
        // The section of the holder is one of them.
        commands: monitor.finish()?.sent() / (tasks + 1) as f64,
        times: if slow { vec![time] } else { Vec::new() },
    })
}

/// µs per section of one round.
pub(super) async fn drain(lock: &Shared, tasks: usize, round: usize) -> Result<f64> {
    let key = format!("drain:{tasks}");
    let held = lock.acquire(&key).await?;
    let waiters: Vec<_> = (0..tasks)
        .map(|_| {
            let (lock, key) = (lock.clone(), key.clone());
            tokio::spawn(async move { lock.acquire(&key).await?.release().await })
        })
        .collect();
    tokio::time::sleep(uneven_pause(round)).await;
    let start = Instant::now();
    held.release().await?;
    let ended = try_join_all(waiters).await?;
    let time = micros(start.elapsed());
    ended.into_iter().collect::<Result<()>>()?;
    Ok(time / tasks as f64)
}

pub(super) async fn round_trips(bare: &Classic) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        bare.round_trip().await?;
        times.push(micros(start.elapsed()));
    }
    Ok(times)
}
