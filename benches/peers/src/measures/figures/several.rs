//! Eight locks of one task that no other client wants: acquired together, and each inside the previous one.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::{BoxFuture, FutureExt};
use reentry::{LockError, Locks};

use super::table::Table;
use crate::bench::{Bench, turns};
use crate::numbers::{median, micros};

const KEYS: usize = 8;
const WARM_UP: usize = 100;

pub(super) async fn times(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let locks = Locks::connect(bench.server.url()).await?;
    let keys: Vec<_> = (0..KEYS)
        .map(|key| format!("figures:several:{key}"))
        .collect();
    let mut samples: [Vec<f64>; 2] = Default::default();
    for round in 0..WARM_UP + rounds {
        for turn in turns(samples.len(), round) {
            let start = Instant::now();
            if turn == 0 {
                nested(&locks, &keys).await?;
            } else {
                locks.lock_all(&keys).run(async {}).await?;
            }
            if round >= WARM_UP {
                samples[turn].push(micros(start.elapsed()));
            }
        }
    }
    let [nested, together] = samples.map(|times| median(&times));
    let figure = format!("{KEYS} locks and their release, µs");
    table.add(&figure, &[("nested", nested), ("lock_all", together)]);
    Ok(())
}

/// One lock inside the other.
fn nested<'a>(locks: &'a Locks, keys: &'a [String]) -> BoxFuture<'a, Result<(), LockError>> {
    async move {
        match keys.split_first() {
            Some((first, others)) => locks.with_lock(first, nested(locks, others)).await?,
            None => Ok(()),
        }
    }
    .boxed()
}
