//! What do lock and unlock cost when no other client wants the lock?
//!
//! There is one task. The control is two bare EVALSHA of the classic scripts. Commands are counted first, with MONITOR.
//! Then latencies are measured, and then the times of the server.

use std::time::Instant;

use anyhow::Result;

use crate::bench::{Bench, turns};
use crate::contestant::Shared;
use crate::kind::Kind;
use crate::monitor::{Monitor, Tally};
use crate::numbers::{median, medians, micros, quantile};

const WARM_UP: usize = 10;
/// The pairs of one turn. What one contestant leaves to the server must not cost only the next one.
const IN_A_ROW: u32 = 10;
/// Pairs while MONITOR counts.
const COUNTED: usize = 200;
/// The number of pairs between two readings of the server's times, and the number of readings.
const COST_PAIRS: usize = 300;
const COST_ROUNDS: usize = 9;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Turns of each contestant, of ten pairs each
    #[arg(long, default_value_t = 500)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let control = Kind::Classic;
    let mut entrants = Vec::new();
    for (kind, lock) in bench.connect(Kind::alone, control).await? {
        entrants.push(Entrant::new(bench, kind, lock).await?);
    }
    for round in 0..WARM_UP + args.rounds {
        for turn in turns(entrants.len(), round) {
            let entrant = &mut entrants[turn];
            let start = Instant::now();
            for _ in 0..IN_A_ROW {
                entrant.pair().await?;
            }
            if round >= WARM_UP {
                entrant.times.push(micros(start.elapsed() / IN_A_ROW));
            }
        }
    }
    for round in 0..COST_ROUNDS {
        for turn in turns(entrants.len(), round) {
            let cost = entrants[turn].server_cost(bench).await?;
            entrants[turn].costs.push(cost);
        }
    }
    let base = entrants.iter().find(|entrant| entrant.kind == control);
    let base = base.map_or(f64::NAN, |entrant| median(&entrant.times));

    let mut report = bench.report("uncontended");
    for entrant in &entrants {
        let times = &entrant.times;
        let [inside, cpu] = medians(&entrant.costs);
        let values = [
            ("p10", "µs", quantile(times, 0.1)),
            ("median", "µs", median(times)),
            ("p90", "µs", quantile(times, 0.9)),
            ("ratio to control", "", median(times) / base),
            ("in commands", "µs/pair", inside),
            ("server CPU", "µs/pair", cpu),
            (
                "commands",
                "per pair",
                entrant.tally.sent() / COUNTED as f64,
            ),
        ];
        report.add("one task", &entrant.kind.name(), &values);
    }
    report.print();
    Ok(())
}

/// One contestant and its results.
struct Entrant {
    kind: Kind,
    lock: Shared,
    key: String,
    tally: Tally,
    times: Vec<f64>,
    costs: Vec<[f64; 2]>,
}

impl Entrant {
    /// Counts its commands.
    async fn new(bench: &Bench, kind: Kind, lock: Shared) -> Result<Entrant> {
        let mut entrant = Entrant {
            kind,
            lock,
            key: format!("uncontended:{}", kind.name()),
            tally: Tally::default(),
            times: Vec::new(),
            costs: Vec::new(),
        };
        entrant.pair().await?;
        let monitor = Monitor::start(&bench.server)?;
        for _ in 0..COUNTED {
            entrant.pair().await?;
        }
        entrant.tally = monitor.finish()?;
        Ok(entrant)
    }

    async fn pair(&self) -> Result<()> {
        self.lock.section(&self.key).await
    }

    /// The cost of a pair for the server in µs: inside the commands that the client sent, including their scripts, and
    /// in the main thread, which also reads, parses and writes.
    async fn server_cost(&self, bench: &Bench) -> Result<[f64; 2]> {
        let before = bench.server.time_by_command().await?;
        let cpu = bench.server.cpu_time().await?;
        for _ in 0..COST_PAIRS {
            self.pair().await?;
        }
        let cpu = bench.server.cpu_time().await? - cpu;
        let after = bench.server.time_by_command().await?;
        let inside = after.iter().map(|(command, time)| {
            let earlier = before.get(command).copied().unwrap_or(0.0);
            (time - earlier) * self.tally.share(command)
        });
        let pairs = COST_PAIRS as f64;
        Ok([inside.sum::<f64>() / pairs, cpu / pairs])
    }
}
