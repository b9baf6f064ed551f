//! What does this project cost in comparison with the bare classic scripts? One table, from one run.
//!
//! The contestants take turns. To compare times, pin the run, with its server and its workers, to one
//! core: `taskset -c 0 cargo peers figures`.

use anyhow::Result;

use self::table::Table;
use crate::bench::Bench;
use crate::heap::{self, Order};

mod crowd;
mod pair;
mod readers;
mod several;
mod table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run a tenth of the rounds, to check whether it works
    #[arg(long)]
    pub(crate) quick: bool,
}

pub(crate) async fn run(bench: &Bench, args: &Args) -> Result<()> {
    if std::thread::available_parallelism()?.get() > 1 {
        eprintln!("not pinned to one core; compare no times, or run it under taskset -c 0");
    }
    let times = |rounds: usize| if args.quick { rounds / 10 } else { rounds };
    let mut table = Table::new(bench.report("figures"));
    // This is done first, because the other program may have to be built.
    let order = Order {
        url: bench.server.url(),
        pairs: times(2_000),
        locks: times(5_000),
    };
    let heap = heap::counted(&order).await?;
    pair::times(bench, &mut table, times(10_000)).await?;
    pair::inside_commands(bench, &mut table, times(50)).await?;
    several::times(bench, &mut table, times(5_000)).await?;
    readers::peers(bench, &mut table, times(5_000)).await?;
    readers::alone(bench, &mut table, times(5_000)).await?;
    readers::crowd(bench, &mut table, times(10)).await?;
    readers::writer(bench, &mut table).await?;
    table.add(
        "allocations of a pair",
        &[("classic", heap.classic_pair), ("reentry", heap.pair)],
    );
    table.add(
        "allocations of a pair, in memory",
        &[("reentry", heap.pair_in_memory)],
    );
    table.add(
        "heap of a held lock, bytes",
        &[("classic", heap.classic_held), ("reentry", heap.held)],
    );
    crowd::throughput(bench, &mut table, times(30)).await?;
    crowd::drain(bench, &mut table, times(30)).await?;
    crowd::hand_off(bench, &mut table, times(200)).await?;
    crowd::keys_left(bench, &mut table).await?;
    table.print();
    Ok(())
}
