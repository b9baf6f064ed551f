//! One task without another client that wants its lock: a pair, and a nested entry with its exit.

use std::time::Instant;

use anyhow::Result;
use reentry::Locks;

use super::table::Table;
use crate::bench::{Bench, turns};
use crate::contestants::classic::Classic;
use crate::numbers::{median, micros};

const WARM_UP: usize = 20;
/// The pairs of one turn. What one contestant leaves to the server must not cost only the next one.
const IN_A_ROW: u32 = 10;
/// The number of pairs between two readings of the server's times.
const PAIRS: usize = 200;

/// Latencies.
pub(super) async fn times(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let url = bench.server.url();
    let classic = Classic::connect(&url).await?;
    let classic_hold = classic.take("figures:classic:outer").await?;
    let locks = Locks::connect(&url).await?;
    let outer = locks.lock("figures:outer").acquire().await?;

    let mut samples: [Vec<f64>; 4] = Default::default();
    for round in 0..WARM_UP + rounds / 10 {
        for turn in turns(samples.len(), round) {
            let start = Instant::now();
            for _ in 0..IN_A_ROW {
                match turn {
                    0 => classic.pair("figures:classic").await?,
                    1 => locks.with_lock("figures", async {}).await?,
                    2 => classic_hold.nested().await?,
                    _ => {
                        let nested = locks.with_lock("figures:outer", async {});
                        outer.scope(nested).await??;
                    }
                }
            }
            if round >= WARM_UP {
                samples[turn].push(micros(start.elapsed() / IN_A_ROW));
            }
        }
    }
    outer.release().await?;
    let [classic, pair, classic_nested, nested] = samples.map(|times| median(&times));
    table.add("a pair, µs", &[("classic", classic), ("reentry", pair)]);
    let nested = [("classic", classic_nested), ("reentry", nested)];
    table.add("a nested entry and its exit, µs", &nested);
    Ok(())
}

/// The time of the server inside the commands of a pair. Both contestants send only scripts.
pub(super) async fn inside_commands(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let url = bench.server.url();
    let classic = Classic::connect(&url).await?;
    let locks = Locks::connect(&url).await?;
    let mut samples: [Vec<f64>; 2] = Default::default();
    for round in 0..=rounds {
        for turn in turns(samples.len(), round) {
            let before = in_scripts(bench).await?;
            for _ in 0..PAIRS {
                if turn == 0 {
                    classic.pair("figures:inside:classic").await?;
                } else {
                    locks.with_lock("figures:inside", async {}).await?;
                }
            }
            let time = (in_scripts(bench).await? - before) / PAIRS as f64;
            // The first round loads the scripts.
            if round > 0 {
                samples[turn].push(time);
            }
        }
    }
    let [classic, reentry] = samples.map(|times| median(&times));
    table.add(
        "inside the commands of a pair, µs",
        &[("classic", classic), ("reentry", reentry)],
    );
    Ok(())
}

/// The time of the scripts so far, including all calls, in µs.
pub(super) async fn in_scripts(bench: &Bench) -> Result<f64> {
    let times = bench.server.time_by_command().await?;
    Ok(times.get("evalsha").copied().unwrap_or(0.0))
}
