//! A worker that holds many locks.

use std::fs;

use anyhow::{Context, Result};

use crate::contestant::Shared;

/// Acquires the locks one after the other, and reports the growth of the process for each of them.
pub(super) async fn bytes_each(lock: &Shared, locks: usize) -> Result<f64> {
    // The first locks allocate what all of them share.
    for n in 0..100 {
        lock.section(&format!("memory:before:{n}")).await?;
    }
    let before = resident()?;
    let mut held = Vec::with_capacity(locks);
    for n in 0..locks {
        held.push(lock.acquire(&format!("memory:{n}")).await?);
    }
    let grown = resident()? - before;
    for hold in held {
        hold.release().await?;
    }
    Ok(grown / locks as f64)
}

/// The resident set of this process, in bytes.
fn resident() -> Result<f64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm
        .split(' ')
        .nth(1)
        .context("statm has a second field")?;
    Ok(pages.parse::<f64>()? * rustix::param::page_size() as f64)
}
