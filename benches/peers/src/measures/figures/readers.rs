//! Readers: a single one, one of several, and one with a writer; many on one key; and a writer among them.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::Result;
use reentry::Locks;
use tokio::task::JoinSet;

use super::pair::in_scripts;
use super::table::Table;
use crate::bench::{Bench, turns};
use crate::contestant::Contestant;
use crate::contestants::classic_readers::ClassicReaders;
#[cfg(feature = "redisson")]
use crate::contestants::redisson_crate::Redisson;
use crate::contestants::rslock::Rslock;
use crate::numbers::{median, micros};
use crate::settings::Settings;

const WARM_UP: usize = 200;
/// The number of pairs between two readings of the server's times.
const PAIRS: usize = 200;
const READERS: usize = 64;
/// The number of sections of each reader.
const SECTIONS: usize = 100;
const WRITES: usize = 50;

/// A single reader, and the commands of other locks for one. The crate rslock has no readers: its lock is exclusive.
pub(super) async fn peers(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let url = bench.server.url();
    let classic = ClassicReaders::connect(&url).await?;
    let locks = Locks::connect(&url).await?;
    let rslock = Rslock::new(&url, Settings::Defaults);
    #[cfg(feature = "redisson")]
    let redisson = Redisson::connect(&url).await?;
    let names = ["classic", "reentry", "rslock", "redisson-crate"];
    let names = &names[..if cfg!(feature = "redisson") { 4 } else { 3 }];
    let mut samples = vec![Vec::new(); names.len()];
    for round in 0..WARM_UP + rounds {
        for turn in turns(names.len(), round) {
            let start = Instant::now();
            match turn {
                0 => classic.section("figures:peers:classic", ready(())).await?,
                1 => locks.lock("figures:peers").read().run(async {}).await?,
                2 => rslock.section("figures:peers:rslock").await?,
                #[cfg(feature = "redisson")]
                _ => redisson.read("figures:peers:redisson").await?,
                #[cfg(not(feature = "redisson"))]
                _ => {}
            }
            if round >= WARM_UP {
                samples[turn].push(micros(start.elapsed()));
            }
        }
    }
    let values = samples.iter().map(|times| median(times));
    let values: Vec<_> = names.iter().copied().zip(values).collect();
    table.add("a pair of a reader alone, µs", &values);
    Ok(())
}

/// A single reader, and a writer.
pub(super) async fn alone(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let locks = Locks::connect(bench.server.url()).await?;
    let mut samples: [Vec<f64>; 2] = Default::default();
    let mut inside: [Vec<f64>; 2] = Default::default();
    for round in 0..WARM_UP + rounds {
        for turn in turns(samples.len(), round) {
            let start = Instant::now();
            section(&locks, turn).await?;
            if round >= WARM_UP {
                samples[turn].push(micros(start.elapsed()));
            }
        }
    }
    for round in 0..=rounds / PAIRS {
        for turn in turns(inside.len(), round) {
            let before = in_scripts(bench).await?;
            for _ in 0..PAIRS {
                section(&locks, turn).await?;
            }
            inside[turn].push((in_scripts(bench).await? - before) / PAIRS as f64);
        }
    }
    let row = |samples: [Vec<f64>; 2]| {
        let [write, read] = samples.map(|times| median(&times));
        [("write", write), ("read", read)]
    };
    table.add("a pair of a writer or reader, µs", &row(samples));
    table.add("inside the commands of that, µs", &row(inside));
    Ok(())
}

async fn section(locks: &Locks, turn: usize) -> Result<()> {
    if turn == 0 {
        locks.with_lock("figures:readers:write", async {}).await?;
    } else {
        locks
            .lock("figures:readers:read")
            .read()
            .run(async {})
            .await?;
    }
    Ok(())
}

/// Many readers of one process on one key.
pub(super) async fn crowd(bench: &Bench, table: &mut Table, rounds: usize) -> Result<()> {
    let url = bench.server.url();
    let classic = ClassicReaders::connect(&url).await?;
    let locks = Locks::connect(&url).await?;
    let (mut rates, mut requests): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
    for round in 0..=rounds {
        for turn in turns(rates.len(), round) {
            let before = bench.server.calls_of("evalsha").await?;
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..READERS {
                let (classic, locks) = (classic.clone(), locks.clone());
                tasks.spawn(async move {
                    for _ in 0..SECTIONS {
                        let body = tokio::task::yield_now();
                        if turn == 0 {
                            classic.section("figures:crowd:classic", body).await?;
                        } else {
                            locks.lock("figures:crowd").read().run(body).await?;
                        }
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            let sections = (READERS * SECTIONS) as f64;
            let time = start.elapsed();
            let asked = bench.server.calls_of("evalsha").await? - before;
            if round > 0 {
                rates[turn].push(sections / time.as_secs_f64());
                requests[turn].push(asked as f64 / sections);
            }
        }
    }
    for (figure, [classic, reentry]) in [
        ("sections per s", rates.map(|rates| median(&rates))),
        ("EVALSHA per section", requests.map(|sent| median(&sent))),
    ] {
        let figure = format!("{READERS} readers of one key, {figure}");
        table.add(&figure, &[("classic", classic), ("reentry", reentry)]);
    }
    Ok(())
}

/// Readers arrive all the time. Measures how long a writer of another process waits for its turn.
pub(super) async fn writer(bench: &Bench, table: &mut Table) -> Result<()> {
    let readers = Locks::connect(bench.server.url()).await?;
    let writer = Locks::connect(bench.server.url()).await?;
    let is_over = Arc::<AtomicBool>::default();
    let mut tasks = JoinSet::new();
    for _ in 0..READERS {
        let (locks, is_over) = (readers.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            while !is_over.load(Relaxed) {
                let body = tokio::task::yield_now();
                locks
                    .lock("figures:readers:writer")
                    .read()
                    .run(body)
                    .await?;
            }
            Ok::<_, reentry::LockError>(())
        });
    }
    let mut longest = 0.0_f64;
    for _ in 0..WRITES {
        let start = Instant::now();
        let waited = writer.with_lock("figures:readers:writer", async { start.elapsed() });
        longest = longest.max(micros(waited.await?) / 1_000.0);
    }
    is_over.store(true, Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let figure = format!("longest wait of a writer among {READERS} readers, ms");
    table.add(&figure, &[("reentry", longest)]);
    Ok(())
}
