//! What does a lock cost its caller over a network, when no other client wants it?
//!
//! The contestants take turns with a few pairs in a row: what one leaves to the server must not cost only the next one.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bench::{Bench, turns};
use crate::far::Far;
use crate::kind::Kind;
use crate::numbers::{median, micros, quantile};

const WARM_UP: usize = 3;
/// The pairs of one turn.
const IN_A_ROW: u32 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Turns of each contestant, of ten pairs each
    #[arg(long, default_value_t = 100)]
    pub(crate) rounds: usize,
    /// The time of a round trip through the network, without the server, in µs
    #[arg(long, default_value_t = 500)]
    pub(crate) delay: u64,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let control = Kind::Classic;
    let far = Far::start(bench.server.port(), Duration::from_micros(args.delay) / 2)?;
    let mut entrants = Vec::new();
    for kind in bench.choose(Kind::alone, control) {
        entrants.push((kind, kind.connect(&far.url()).await?, Vec::new()));
    }
    for round in 0..WARM_UP + args.rounds {
        for turn in turns(entrants.len(), round) {
            let (kind, lock, times) = &mut entrants[turn];
            let key = format!("network:{}", kind.name());
            let start = Instant::now();
            for _ in 0..IN_A_ROW {
                lock.section(&key).await?;
            }
            if round >= WARM_UP {
                times.push(micros(start.elapsed() / IN_A_ROW));
            }
        }
    }
    let base = entrants.iter().find(|(kind, ..)| *kind == control);
    let base = base.map_or(f64::NAN, |(.., times)| median(times));
    let mut report = bench.report("network");
    for (kind, _, times) in &entrants {
        let values = [
            ("p10", "µs", quantile(times, 0.1)),
            ("median", "µs", median(times)),
            ("p90", "µs", quantile(times, 0.9)),
            ("ratio to control", "", median(times) / base),
        ];
        let title = format!("one task, {} µs away", args.delay);
        report.add(&title, &kind.name(), &values);
    }
    report.print();
    Ok(())
}
