//! What do waiters cost while they wait?
//!
//! Another client holds the lock, and 32 tasks of one process wait for it. The result is the number of commands of both
//! clients per second, including renewals.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::kind::Kind;
use crate::monitor::Monitor;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of waiting tasks
    #[arg(long, default_value_t = 32)]
    pub(crate) tasks: usize,
    /// How long the tasks are watched
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let mut report = bench.report("waiting");
    for kind in bench.choose(Kind::waits_for_others, Kind::Blpop) {
        let url = bench.server.url();
        let (holder, waiter) = (kind.connect(&url).await?, kind.connect(&url).await?);
        let key = format!("waiting:{}", kind.name());
        let held = holder.acquire(&key).await?;
        let waiters: Vec<_> = (0..args.tasks)
            .map(|_| {
                let (lock, key) = (waiter.clone(), key.clone());
                tokio::spawn(async move { lock.acquire(&key).await?.release().await })
            })
            .collect();
        // Waits until all tasks have queued up.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let monitor = Monitor::start(&bench.server)?;
        tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
        let commands = monitor.finish()?.sent() / args.seconds;
        held.release().await?;
        for waiter in waiters {
            waiter.await??;
        }
        let values = [("commands", "per s", commands)];
        report.add(&format!("{} tasks", args.tasks), &kind.name(), &values);
    }
    report.print();
    Ok(())
}
