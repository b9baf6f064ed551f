//! What does an idle hold send?
//!
//! There is one hold of each contestant at the same time, with a TTL of 30 s. The result is the number of commands with
//! its key, per 10 s, from the first renewal on. Only contestants that renew such a lease take part.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::kind::Kind;
use crate::monitor::Monitor;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long the holds are watched: several TTLs, because renewals are about 10 s apart
    #[arg(long, default_value_t = 60.0)]
    pub(crate) seconds: f64,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let mut holds = Vec::new();
    for (kind, lock) in bench.connect(Kind::renews, Kind::RedissonProtocol).await? {
        let key = format!("idle:{}", kind.name());
        let held = lock.acquire(&key).await?;
        holds.push((kind, lock, key, held));
    }
    // The first renewal may be the one that loads the script.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let mut monitors = Vec::new();
    for (_, _, key, _) in &holds {
        monitors.push(Monitor::start_for(&bench.server, &format!("{key}\""))?);
    }
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    let mut report = bench.report("idle");
    let tens = args.seconds / 10.0;
    for ((kind, _lock, _, held), monitor) in holds.into_iter().zip(monitors) {
        let tally = monitor.finish()?;
        let values = [
            ("commands", "per 10 s", tally.sent() / tens),
            ("called by scripts", "per 10 s", tally.called() / tens),
        ];
        report.add("one hold", &kind.name(), &values);
        held.release().await?;
    }
    report.print();
    Ok(())
}
