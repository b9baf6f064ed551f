//! How long does it take from a release in one process to the entry in another one?
//!
//! Two processes of each contestant acquire the lock in turn. The time is from the call of `release` to the return of
//! `acquire`, on a clock that they share. The control is BLPOP. Meanwhile, idle-priority processes keep the cores
//! awake.

use anyhow::Result;

use crate::bench::{Bench, turns, uneven_pause};
use crate::crew::{Worker, crew};
use crate::kind::Kind;
use crate::numbers::{median, quantile};
use crate::spinner::Spinners;
use crate::worker::Job;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Hand-offs of each contestant
    #[arg(long, default_value_t = 60)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let control = Kind::Blpop;
    let mut pairs = Vec::new();
    for kind in bench.choose(Kind::waits_for_others, control) {
        let key = format!("handoff:{}", kind.name());
        let workers = crew(&bench.server.url(), kind, &Job::Obey { key }, 2).await?;
        pairs.push((kind, workers, Vec::new()));
    }
    let _awake = Spinners::start()?;
    for round in 0..args.rounds {
        for turn in turns(pairs.len(), round) {
            let (_, workers, times) = &mut pairs[turn];
            times.push(hand_off(workers, round).await?);
        }
    }
    let base = pairs.iter().find(|(kind, ..)| *kind == control);
    let base = base.map_or(f64::NAN, |(_, _, times)| median(times));

    let mut report = bench.report("handoff");
    for (kind, _, times) in &pairs {
        let values = [
            ("p10", "µs", quantile(times, 0.1)),
            ("median", "µs", median(times)),
            ("p90", "µs", quantile(times, 0.9)),
            ("ratio to blpop", "", median(times) / base),
        ];
        report.add("two processes", &kind.name(), &values);
    }
    report.print();
    Ok(())
}

/// The time from the release to the entry, in µs. Afterwards the lock is free, and the two processes have changed
/// roles.
pub(super) async fn hand_off(workers: &mut [Worker], round: usize) -> Result<f64> {
    let [holder, waiter] = workers else {
        anyhow::bail!("two workers are needed");
    };
    holder.tell("acquire").await?;
    holder.hear::<f64>().await?;
    waiter.tell("acquire").await?;
    tokio::time::sleep(uneven_pause(round)).await;
    holder.tell("release").await?;
    let released: f64 = holder.hear().await?;
    let entered: f64 = waiter.hear().await?;
    waiter.tell("release").await?;
    waiter.hear::<f64>().await?;
    workers.swap(0, 1);
    Ok(entered - released)
}
