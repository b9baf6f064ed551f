//! What does a held lock cost the client, including its watchdog?
//!
//! The result is the growth of the resident set of a new process when it acquires many locks. Only contestants that
//! renew a lease of 30 s take part.

use anyhow::Result;

use crate::bench::Bench;
use crate::crew::Worker;
use crate::kind::Kind;
use crate::numbers::median;
use crate::worker::Job;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Locks that are held at the same time
    #[arg(long, default_value_t = 10_000)]
    pub(crate) locks: usize,
    /// Processes of each contestant
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    let kinds = bench.choose(Kind::renews, Kind::RedissonProtocol);
    let mut sizes = vec![Vec::new(); kinds.len()];
    for _ in 0..args.rounds {
        for (kind, sizes) in kinds.iter().zip(&mut sizes) {
            let job = Job::Hold { locks: args.locks };
            let mut worker = Worker::start(&bench.server.url(), *kind, job).await?;
            worker.tell("go").await?;
            sizes.push(worker.hear::<f64>().await?);
        }
    }
    let mut report = bench.report("memory");
    let setting = format!("{} locks", args.locks);
    for (kind, sizes) in kinds.iter().zip(&sizes) {
        let values = [("memory", "bytes/lock", median(sizes))];
        report.add(&setting, &kind.name(), &values);
    }
    report.print();
    Ok(())
}
