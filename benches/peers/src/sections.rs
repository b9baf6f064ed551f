//! Many tasks that want one lock again and again: which of them acquire it, and after how long.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;

use crate::contestant::Shared;
use crate::numbers::micros;

/// The work of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) key: String,
    pub(crate) tasks: usize,
    /// The duration of a section.
    pub(crate) work: Duration,
    /// The duration of the run.
    pub(crate) time: Duration,
}

/// The results of one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Served {
    /// Sections of each task.
    pub(crate) sections: Vec<u64>,
    /// Waits in µs, including those that were cut short by the end of the run.
    pub(crate) waits: Vec<f64>,
}

impl Served {
    pub(crate) fn total(&self) -> f64 {
        self.sections.iter().sum::<u64>() as f64
    }
}

pub(crate) async fn serve(lock: &Shared, plan: &Plan) -> Result<Served> {
    let end = Instant::now() + plan.time;
    let tasks = (0..plan.tasks).map(|_| tokio::spawn(task(lock.clone(), plan.clone(), end)));
    let mut served = Served::default();
    for outcome in try_join_all(tasks).await? {
        let (sections, waits) = outcome?;
        served.sections.push(sections);
        served.waits.extend(waits);
    }
    Ok(served)
}

/// The sections of one task, and its waits.
async fn task(lock: Shared, plan: Plan, end: Instant) -> Result<(u64, Vec<f64>)> {
    let (mut sections, mut waits) = (0, Vec::new());
    while Instant::now() < end {
        let start = Instant::now();
        let entry = timeout_at(end.into(), lock.acquire(&plan.key)).await;
        waits.push(micros(start.elapsed()));
        let Ok(held) = entry else { break };
        let held = held?;
        if !plan.work.is_zero() {
            tokio::time::sleep(plan.work).await;
        }
        held.release().await?;
        sections += 1;
    }
    Ok((sections, waits))
}
