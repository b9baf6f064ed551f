//! `reentry bench`: the cost of locks on this server, in comparison with the classic scripts.
//!
//! | file | what it is |
//! |---|---|
//! | `contestant` | the two locks behind one interface |
//! | `classic` | the classic scripts, bare |
//! | `measures` | one run of each measurement |
//! | `report` | the results, as text with bars and as JSON |

mod classic;
mod contestant;
mod measures;
mod report;

use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use self::classic::Classic;
use self::contestant::{Contestant, PROCESSES};
use self::measures::{Measure, measured};
use self::report::{Report, Row};
use crate::args::Global;
use crate::exit::Exit;
use crate::{connect, output};

/// Measure locks on your own server, beside the classic scripts
///
/// Each round measures the bare round trip first, and then the contestants in turn. So other load on the server affects
/// all of them. The classic scripts (HEXISTS, HINCRBY, PEXPIRE) have no queue: a waiter asks again every 10 ms. All
/// keys begin with `reentry-bench:`, after the prefix, and are deleted afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything by default
    #[arg(value_enum, value_name = "MEASURE")]
    measures: Vec<Measure>,
    /// Number of rounds
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of locks that a round acquires without another caller
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Number of callers that want one lock at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    callers: u32,
}

/// The minimum response timeout. A slow response is part of the measurement, and not a failure.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let global = &Global {
        response_timeout: global.response_timeout.max(PATIENCE),
        ..global.clone()
    };
    let mut locks = Vec::new();
    for _ in 0..PROCESSES {
        locks.push(connect::locks(global).await?);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let key = format!("reentry-bench:{}-{}", process::id(), since.as_nanos());
    let classic = Classic::connect(global, &format!("{}{key}:classic", global.prefix)).await?;
    let contestants = [
        ("reentry", Contestant::Reentry(locks.clone(), key)),
        ("classic", Contestant::Classic(classic.clone())),
    ];
    let report = tokio::select! {
        report = rounds(&args, &contestants, &classic) => report,
        // The keys that a second Ctrl-C leaves behind expire.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err(anyhow::anyhow!("interrupted"))
        }
    };
    let cleaned = classic.clean_up().await;
    for locks in &locks {
        locks.close(Duration::from_secs(1)).await;
    }
    let report = report?;
    cleaned?;
    output::print(global, &report)?;
    Ok(Exit::Success)
}

/// Runs all rounds. In each round the other contestant is first.
async fn rounds(
    args: &Args,
    contestants: &[(&'static str, Contestant)],
    classic: &Classic,
) -> anyhow::Result<Report> {
    let measures = match &args.measures[..] {
        [] => Measure::ALL.to_vec(),
        named => named.to_vec(),
    };
    let mut rows: Vec<Row> = Vec::new();
    for &measure in &measures {
        rows.extend(contestants.iter().map(|(name, _)| Row::new(measure, name)));
    }
    let mut round_trips = Vec::new();
    for round in 0..args.rounds {
        round_trips.extend(measures::round_trips(classic, args.pairs).await?);
        for &measure in &measures {
            let mut turns: Vec<_> = contestants.iter().collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (name, contestant) in turns {
                let times = measured(measure, contestant, args.pairs, args.callers).await;
                let times = times.with_context(|| format!("{name} failed"))?;
                let row = rows.iter_mut().find(|row| row.is_of(measure, name));
                if let Some(row) = row {
                    row.add(times);
                }
            }
        }
    }
    Ok(Report::new(
        classic.server(),
        args.rounds,
        &round_trips,
        rows,
    ))
}
