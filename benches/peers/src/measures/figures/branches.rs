//! Branches below one holder that enter its lock again and again.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use reentry::Locks;

use super::table::Table;
use crate::bench::{Bench, turns};
use crate::contestants::classic::Classic;
use crate::numbers::{medians, quantile};

const BRANCHES: usize = 12;
/// The duration of the loops in each round.
const TIME: Duration = Duration::from_millis(300);

/// The fewest and the most entries of a branch.
pub(super) async fn fairness(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let url = bench.server.url();
    let classic = Classic::connect(&url).await?;
    let locks = Locks::connect(&url).await?;
    let hold = classic.take("figures:branches:classic").await?;
    let outer = locks.lock("figures:branches").acquire().await?;
    let mut samples: [Vec<[f64; 3]>; 2] = Default::default();
    for round in 0..=rounds {
        for turn in turns(samples.len(), round) {
            let spread = if turn == 0 {
                spread(async || hold.nested().await).await?
            } else {
                let entry = async || Ok(locks.with_lock("figures:branches", async {}).await?);
                outer.scope(spread(entry)).await??
            };
            if round > 0 {
                samples[turn].push(spread);
            }
        }
    }
    outer.release().await?;
    let [classic, reentry] = samples.map(|samples| medians(&samples));
    let figures = ["fewest entries", "most entries", "fewest / most"];
    for (at, figure) in figures.into_iter().enumerate() {
        let figure = format!("{BRANCHES} branches below a holder, {figure}");
        let values = [("classic", classic[at]), ("reentry", reentry[at])];
        table.add(&figure, &values);
    }
    Ok(())
}

/// All branches loop. Returns the fewest and the most entries of a branch, and their ratio.
async fn spread(entry: impl AsyncFn() -> Result<()>) -> Result<[f64; 3]> {
    let end = Instant::now() + TIME;
    let branch = async |_| {
        let mut entries = 0.0;
        while Instant::now() < end {
            entry().await?;
            entries += 1.0;
        }
        anyhow::Ok(entries)
    };
    let entries: Vec<f64> = try_join_all((0..BRANCHES).map(branch)).await?;
    let (fewest, most) = (quantile(&entries, 0.0), quantile(&entries, 1.0));
    Ok([fewest, most, fewest / most])
}
