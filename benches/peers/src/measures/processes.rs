//! What does a section cost when several processes want the lock all the time?
//!
//! The sections are empty. The first run counts the sections of each process. The second run, with MONITOR, counts the
//! commands of each section. Messages are counted wherever they are published.

use std::time::Duration;

use anyhow::Result;

use crate::bench::{Bench, turns};
use crate::crew::crew;
use crate::kind::Kind;
use crate::monitor::Monitor;
use crate::numbers::{medians, quantile};
use crate::sections::{Plan, Served};
use crate::worker::Job;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Worker processes
    #[arg(long, default_value_t = 4)]
    pub(crate) processes: usize,
    /// Tasks in each process
    #[arg(long, value_delimiter = ',', default_values_t = [8, 1])]
    pub(crate) tasks: Vec<usize>,
    /// Seconds of each run
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Rounds, of two runs each
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let kinds = bench.choose(Kind::waits_for_others, Kind::Blpop);
    let mut report = bench.report("processes");
    for &tasks in &args.tasks {
        let mut found = vec![Vec::new(); kinds.len()];
        for round in 0..args.rounds {
            for turn in turns(kinds.len(), round) {
                found[turn].push(one_round(bench, kinds[turn], args, tasks, round).await?);
            }
        }
        for (kind, rounds) in kinds.iter().zip(&found) {
            let [sections, fewest, most, commands, messages] = medians(rounds);
            let values = [
                ("sections", "per s", sections),
                ("fewest", "per process", fewest),
                ("most", "per process", most),
                ("commands", "per section", commands),
                ("messages", "per section", messages),
            ];
            report.add(
                &format!("{} x {tasks}", args.processes),
                &kind.name(),
                &values,
            );
        }
    }
    report.print();
    Ok(())
}

/// Sections per second, the fewest and the most of a process, and commands and messages per section.
async fn one_round(
    bench: &Bench,
    kind: Kind,
    args: &Args,
    tasks: usize,
    round: usize,
) -> Result<[f64; 5]> {
    let plan = |name: &str| Plan {
        key: format!("processes:{}:{tasks}:{name}:{round}", kind.name()),
        tasks,
        work: Duration::ZERO,
        time: Duration::from_secs_f64(args.seconds),
    };
    let timed = together(bench, kind, plan("timed"), args.processes).await?;
    let totals: Vec<f64> = timed.iter().map(Served::total).collect();

    let monitor = Monitor::start(&bench.server)?;
    let counted = together(bench, kind, plan("counted"), args.processes).await?;
    let tally = monitor.finish()?;
    let counted = counted.iter().map(Served::total).sum::<f64>();
    Ok([
        totals.iter().sum::<f64>() / args.seconds,
        quantile(&totals, 0.0),
        quantile(&totals, 1.0),
        tally.sent() / counted,
        tally.published() / counted,
    ])
}

/// Runs one plan in several processes that begin at the same time.
pub(super) async fn together(
    bench: &Bench,
    kind: Kind,
    plan: Plan,
    processes: usize,
) -> Result<Vec<Served>> {
    let job = Job::Sections(plan);
    let mut workers = crew(&bench.server.url(), kind, &job, processes).await?;
    for worker in &mut workers {
        worker.tell("go").await?;
    }
    let mut served = Vec::new();
    for worker in &mut workers {
        served.push(worker.hear().await?);
    }
    Ok(served)
}
