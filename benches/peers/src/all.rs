//! All measures once, in modest sizes, each on a new server.

use anyhow::Result;

use crate::bench::{Bench, Common};
use crate::measures::{
    drain, fairness, handoff, idle, memory, processes, subscriptions, throughput, uncontended,
    waiting,
};

pub(crate) async fn run(common: &Common) -> Result<()> {
    let start = || Bench::start(common);
    let args = uncontended::Args { rounds: 200 };
    uncontended::run(&start().await?, &args).await?;
    let args = throughput::Args {
        tasks: 64,
        rounds: 7,
    };
    throughput::run(&start().await?, &args).await?;
    let args = drain::Args {
        tasks: vec![8, 32, 128],
        rounds: 3,
    };
    drain::run(&start().await?, &args).await?;
    let args = processes::Args {
        processes: 4,
        tasks: vec![8, 1],
        seconds: 1.5,
        rounds: 1,
    };
    processes::run(&start().await?, &args).await?;
    handoff::run(&start().await?, &handoff::Args { rounds: 25 }).await?;
    let args = waiting::Args {
        tasks: 32,
        seconds: 3.0,
    };
    waiting::run(&start().await?, &args).await?;
    let args = fairness::Args {
        seconds: 3.0,
        rounds: 1,
    };
    fairness::run(&start().await?, &args).await?;
    let args = memory::Args {
        locks: 10_000,
        rounds: 1,
    };
    memory::run(&start().await?, &args).await?;
    idle::run(&start().await?, &idle::Args { seconds: 30.0 }).await?;
    let args = subscriptions::Args {
        keys: 1_000,
        processes: 4,
    };
    subscriptions::run(&start().await?, &args).await
}
