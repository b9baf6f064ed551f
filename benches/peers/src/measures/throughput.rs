//! How many pairs per second do 64 tasks reach, each with its own key?
//!
//! The control is the bare classic scripts on one connection.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;

use crate::bench::{Bench, turns};
use crate::contestant::Shared;
use crate::kind::Kind;
use crate::numbers::median;

/// Pairs of each task in a round.
const PAIRS: usize = 40;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tasks, each with its own key
    #[arg(long, default_value_t = 64)]
    pub(crate) tasks: usize,
    /// Rounds of 40 pairs for each task
    #[arg(long, default_value_t = 15)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let control = Kind::Classic;
    let contestants = bench.connect(Kind::alone, control).await?;
    let mut rates = vec![Vec::new(); contestants.len()];
    for round in 0..=args.rounds {
        for turn in turns(contestants.len(), round) {
            let (kind, lock) = &contestants[turn];
            let rate = rate(*kind, lock, args.tasks).await?;
            // The first round warms up.
            if round > 0 {
                rates[turn].push(rate);
            }
        }
    }
    let base = contestants.iter().position(|(kind, _)| *kind == control);
    let base = base.map_or(f64::NAN, |index| median(&rates[index]));

    let mut report = bench.report("throughput");
    let setting = format!("{} tasks", args.tasks);
    for ((kind, _), rates) in contestants.iter().zip(&rates) {
        let values = [
            ("pairs", "per s", median(rates)),
            ("ratio to control", "", median(rates) / base),
        ];
        report.add(&setting, &kind.name(), &values);
    }
    report.print();
    Ok(())
}

/// Pairs per second in one round.
pub(super) async fn rate(kind: Kind, lock: &Shared, tasks: usize) -> Result<f64> {
    let start = Instant::now();
    let tasks = (0..tasks).map(|task| {
        let key = format!("throughput:{}:{task}", kind.name());
        let lock = lock.clone();
        tokio::spawn(async move {
            for _ in 0..PAIRS {
                lock.section(&key).await?;
            }
            anyhow::Ok(())
        })
    });
    let ended = try_join_all(tasks).await?;
    let pairs = ended.len() * PAIRS;
    ended.into_iter().collect::<Result<()>>()?;
    Ok(pairs as f64 / start.elapsed().as_secs_f64())
}
