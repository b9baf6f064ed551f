//! Does every client get a turn, and how long does it take?
//!
//! The tasks want the lock all the time, and hold it for a millisecond. A wait that is cut short by the end of the run
//! counts with its duration.

use std::time::Duration;

use anyhow::Result;

use super::processes::together;
use crate::bench::{Bench, turns};
use crate::kind::Kind;
use crate::numbers::{median, medians, quantile};
use crate::report::Report;
use crate::sections::{Plan, Served};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Runs of each contestant
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let mut report = bench.report("fairness");
    let kinds = bench.choose(Kind::waits, Kind::Blpop);
    one_shape(bench, &mut report, args, (1, 32), &kinds).await?;
    let kinds = bench.choose(Kind::waits_for_others, Kind::Blpop);
    one_shape(bench, &mut report, args, (4, 8), &kinds).await?;
    report.print();
    Ok(())
}

/// A number of processes, and the number of tasks in each.
async fn one_shape(
    bench: &Bench,
    report: &mut Report,
    args: &Args,
    (processes, tasks): (usize, usize),
    kinds: &[Kind],
) -> Result<()> {
    let mut found = vec![Vec::new(); kinds.len()];
    for round in 0..args.rounds {
        for turn in turns(kinds.len(), round) {
            let plan = Plan {
                key: format!("fairness:{}:{tasks}:{round}", kinds[turn].name()),
                tasks,
                work: Duration::from_millis(1),
                time: Duration::from_secs_f64(args.seconds),
            };
            let served = together(bench, kinds[turn], plan, processes).await?;
            found[turn].push(figures(&served));
        }
    }
    for (kind, rounds) in kinds.iter().zip(&found) {
        let [fewest, most, middle, longest, ratio] = medians(rounds);
        let values = [
            ("fewest sections", "per task", fewest),
            ("most sections", "per task", most),
            ("median wait", "ms", middle),
            ("longest wait", "ms", longest),
            ("longest / median", "", ratio),
        ];
        report.add(&format!("{processes} x {tasks}"), &kind.name(), &values);
    }
    Ok(())
}

/// The fewest and the most sections of a task; the median and the longest wait, and their ratio.
fn figures(served: &[Served]) -> [f64; 5] {
    let sections = served.iter().flat_map(|one| &one.sections);
    let sections: Vec<f64> = sections.map(|count| *count as f64).collect();
    let waits = served.iter().flat_map(|one| &one.waits);
    let waits: Vec<f64> = waits.map(|wait| wait / 1e3).collect();
    let (middle, longest) = (median(&waits), quantile(&waits, 1.0));
    [
        quantile(&sections, 0.0),
        quantile(&sections, 1.0),
        middle,
        longest,
        longest / middle,
    ]
}
