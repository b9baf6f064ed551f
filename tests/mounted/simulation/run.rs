//! One run, from its seed to its end. First faults happen, then none any more. After that every task must complete, and
//! nothing may be left.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, sleep, timeout};

use super::climate::Climate;
use super::ledger::{Ledger, Report};
use super::link::Link;
use super::process::{Process, World};
use super::program::KEYS;
use super::server::Server;
use crate::{Locks, held};

/// The time for which faults happen.
const TROUBLE: Duration = Duration::from_secs(20);

/// The time that the tasks may take after that. A lease of a killed process, or one after a clock that was set back,
/// may have to expire first, several times in a row.
const PATIENCE: Duration = Duration::from_secs(400);

/// The values that follow from a seed.
pub(super) fn run(climate: Climate, seed: u64) -> Report {
    simulated(seed, live(climate))
}

/// Runs a future on paused time, with all random choices from this seed.
pub(super) fn simulated<T>(seed: u64, future: impl Future<Output = T>) -> T {
    fastrand::seed(seed);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

async fn live(climate: Climate) -> Report {
    let ledger = Ledger::new(climate);
    let world = World {
        climate,
        server: Arc::new(Server::new()),
        ledger: Arc::clone(&ledger),
        heartbeat: Duration::from_millis([50, 200, 1_000][fastrand::usize(0..3)]),
        end: Instant::now() + TROUBLE,
    };
    let mut crew: Vec<_> = (0..fastrand::usize(2..=4))
        .map(|number| Process::start(number, &world))
        .collect();
    world.rage(&mut crew).await;
    ledger.note("all is well from here on");
    world.server.calm_for(2 * PATIENCE);
    let all = async {
        for process in &mut crew {
            process.ended().await;
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        ledger.violation("a waiter waits for ever");
        return ledger.report();
    }
    drop(crew);
    // The lease of a holder that was killed, or a lease that was lengthened, may have to expire first.
    sleep(PATIENCE / 4).await;
    last_visit(&world).await;
    ledger.look_for_orphans();
    sleep(Duration::from_secs(20)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > 0 {
        ledger.violation(format_args!("{tasks} tasks are left"));
    }
    ledger.report()
}

/// A new process acquires each lock immediately, because it is free and no waiter is left.
async fn last_visit(world: &World) {
    let link = Link::new(&world.server, &world.ledger, world.climate, PATIENCE);
    let locks = Locks::builder("memory:").build_on_wire(Arc::new(link), PATIENCE);
    for key in KEYS {
        let depth = locks.with_lock(key, async { held(key).map(|held| held.depth()) });
        let visit = locks.lock(key).no_wait().run(depth).await;
        match visit {
            Ok(Ok(Some(2))) => {}
            other => world
                .ledger
                .violation(format_args!("{key} is left behind: {other:?}")),
        }
    }
    // An exit does not wait for the answer to its release.
    locks.close(PATIENCE).await;
}
