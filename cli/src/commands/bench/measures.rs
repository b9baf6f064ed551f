//! One run of each measurement.

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::classic::Classic;
use super::contestant::Contestant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Measure {
    /// Acquisition and release of a lock, without another caller
    Pair,
    /// One entry, while many callers in two processes want the lock at the same time
    Drain,
    /// From a release to the entry of a caller that waits in another process
    Handoff,
}

impl Measure {
    pub(super) const ALL: [Self; 3] = [Self::Pair, Self::Drain, Self::Handoff];
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pair => "acquisition and release of a lock, without another caller",
            Self::Drain => "one entry, while many callers want the lock at the same time",
            Self::Handoff => "from a release to the entry in another process",
        })
    }
}

/// The number of hand-offs in a round.
const HAND_OFFS: u32 = 5;

/// The time for which a caller waits before the lock is handed to it. It grows, so that no wait is in step with a poll.
const WAITS: [u64; HAND_OFFS as usize] = [31, 34, 38, 43, 47];

/// The times of one measurement in a round.
pub(super) async fn measured(
    measure: Measure,
    contestant: &Contestant,
    pairs: u32,
    callers: u32,
) -> anyhow::Result<Vec<Duration>> {
    match measure {
        Measure::Pair => each_pair(contestant, pairs).await,
        Measure::Drain => Ok(vec![drain(contestant, callers).await? / callers]),
        Measure::Handoff => {
            let mut times = Vec::new();
            for wait in WAITS {
                times.push(hand_off(contestant, Duration::from_millis(wait)).await?);
            }
            Ok(times)
        }
    }
}

/// The time of a script that does nothing.
pub(super) async fn round_trips(classic: &Classic, count: u32) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        classic.round_trip().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

async fn each_pair(contestant: &Contestant, count: u32) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        contestant.acquire(0).await?.release().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// The time until all callers have been inside.
async fn drain(contestant: &Contestant, callers: u32) -> anyhow::Result<Duration> {
    let mut inside = JoinSet::new();
    let start = Instant::now();
    for caller in 0..callers {
        let contestant = contestant.clone();
        inside.spawn(async move { contestant.acquire(caller as usize).await?.release().await });
    }
    while let Some(ended) = inside.join_next().await {
        ended??;
    }
    Ok(start.elapsed())
}

async fn hand_off(contestant: &Contestant, wait: Duration) -> anyhow::Result<Duration> {
    let held = contestant.acquire(0).await?;
    let waiter = contestant.clone();
    let waiter = tokio::spawn(async move {
        let held = waiter.acquire(1).await?;
        anyhow::Ok((Instant::now(), held))
    });
    sleep(wait).await;
    let released = Instant::now();
    held.release().await?;
    let (entered, held) = waiter.await??;
    held.release().await?;
    Ok(entered.duration_since(released))
}
