//! A scheduled job on many machines: each of them tries it in every period, and one of them runs it.
//!
//! Start it in several terminals, at any time:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example cron
//! ```
//!
//! Without `REDIS_URL` three machines are tasks of this process, whose clocks differ by half a second, for five periods.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reentry::{LockError, Locks};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PERIOD: Duration = Duration::from_secs(3);
/// Longer than the machines' clocks differ, and so much shorter than the period that the next run is not late.
const KEPT: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        return rehearse().await;
    };
    let locks = Locks::connect(url).await?;
    let name = std::process::id().to_string();
    tokio::select! {
        ended = machine(&locks, &name, Duration::ZERO, u32::MAX) => ended?,
        _ = tokio::signal::ctrl_c() => println!("{name}: stopping"),
    }
    println!("{name}: {}", locks.close().await);
    Ok(())
}

/// Tries the job at the beginning of each period of its clock, which is slow by so much.
async fn machine(
    locks: &Locks,
    name: &str,
    slow_by: Duration,
    periods: u32,
) -> Result<(), LockError> {
    for _ in 0..periods {
        sleep(until_next_period() + slow_by).await;
        // The report takes no time. Without `min_hold` the lock would be free for the next machine, which is late.
        let job = locks.lock("cron:report").min_hold(KEPT).no_wait();
        match job.run(report(name)).await {
            Ok(()) => {}
            Err(error) if error.is_contended() => println!("{name}: another machine runs it"),
            // The store is away: the next period will do.
            Err(error) if error.is_unavailable() => println!("{name}: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn report(name: &str) {
    println!("{name}: runs the job");
}

fn until_next_period() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = now.unwrap_or_default().as_millis() % PERIOD.as_millis();
    PERIOD - Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

async fn rehearse() -> Result<(), LockError> {
    let locks = Locks::in_memory();
    let mut machines = JoinSet::new();
    for (name, slow_by) in [("anna", 0), ("bert", 250), ("cleo", 500)] {
        let locks = locks.clone();
        let slow_by = Duration::from_millis(slow_by);
        machines.spawn(async move { machine(&locks, name, slow_by, 5).await });
    }
    machines.join_all().await.into_iter().collect()
}
