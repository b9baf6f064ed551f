//! A nightly job on many machines: each machine tries to run it every night, and one of them runs it.
//!
//! ```text
//! cargo run --example cron      # or with REDIS_URL=redis://127.0.0.1:6379 in several terminals
//! cargo test --example cron
//! ```
//!
//! A night of this program takes three seconds. Without `REDIS_URL`, the program simulates five nights of three machines.
//! They are tasks of this process, and their clocks differ by half a second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reentry::{LockError, Locks};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The time from one night to the next.
const PERIOD: Duration = Duration::from_secs(3);

/// Each machine calls this every night. Returns whether this machine did the job.
///
/// `kept` is longer than the clocks of the machines differ. A dead machine keeps the others out for this time, too.
async fn nightly(
    locks: &Locks,
    kept: Duration,
    job: impl Future<Output = ()>,
) -> Result<bool, LockError> {
    let tonight = locks.lock("job:nightly").no_wait().min_hold(kept);
    match tonight.run(job).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_contended() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A machine whose clock is slow by this time.
async fn machine(locks: &Locks, name: &str, slow_by: Duration, nights: u32) {
    for _ in 0..nights {
        sleep(until_next_night() + slow_by).await;
        let job = async { println!("{name}: runs the job") };
        match nightly(locks, PERIOD / 2, job).await {
            Ok(true) => {}
            Ok(false) => println!("{name}: another machine runs it"),
            Err(error) => println!("{name}: not tonight: {error}"),
        }
    }
}

fn until_next_night() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = now.unwrap_or_default().as_millis() % PERIOD.as_millis();
    PERIOD - Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        rehearse().await;
        return Ok(());
    };
    let locks = Locks::builder().url(url).build_lazy()?;
    let name = std::process::id().to_string();
    tokio::select! {
        () = machine(&locks, &name, Duration::ZERO, u32::MAX) => {}
        _ = tokio::signal::ctrl_c() => println!("{name}: stopping"),
    }
    println!("{name}: {}", locks.close().await);
    Ok(())
}

async fn rehearse() {
    let locks = Locks::in_memory();
    let mut machines = JoinSet::new();
    for (name, slow_by) in [("anna", 0), ("bert", 250), ("cleo", 500)] {
        let locks = locks.clone();
        let slow_by = Duration::from_millis(slow_by);
        machines.spawn(async move { machine(&locks, name, slow_by, 5).await });
    }
    machines.join_all().await;
}

#[cfg(test)]
mod tests {
    use tokio::join;
    use tokio::time::timeout;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const HOUR: Duration = Duration::from_secs(60 * 60);
    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn one_of_three_machines_runs_the_job_each_night() -> Result<(), LockError> {
        let locks = Locks::in_memory();
        let try_at = async |after: Duration| {
            sleep(after).await;
            nightly(&locks, HOUR, sleep(MINUTE)).await
        };
        for night in 0..5 {
            // The second clock is slow by two seconds, and the third one by more than the duration of the job.
            let (first, second) = (try_at(Duration::ZERO), try_at(Duration::from_secs(2)));
            let (first, second, third) = join!(first, second, try_at(30 * MINUTE));
            assert_eq!((first?, second?, third?), (true, false, false), "{night}");
            sleep(DAY - 30 * MINUTE).await;
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_takes_all_night_keeps_the_others_out() -> Result<(), LockError> {
        let locks = Locks::in_memory();
        let long = nightly(&locks, HOUR, sleep(DAY * 3 / 4));
        let late = async {
            sleep(DAY * 2 / 3).await;
            nightly(&locks, HOUR, async {}).await
        };
        let (long, late) = join!(long, late);
        assert_eq!((long?, late?), (true, false));
        Ok(())
    }

    /// The lock shows that the job has begun, and not that it is done.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_fails_has_no_other_run_until_the_next_night() -> Result<(), LockError> {
        let locks = Locks::in_memory();
        let fails = timeout(MINUTE, nightly(&locks, HOUR, sleep(DAY / 4))).await;
        assert!(fails.is_err());
        assert!(!nightly(&locks, HOUR, async {}).await?);
        sleep(DAY).await;
        assert!(nightly(&locks, HOUR, async {}).await?);
        Ok(())
    }
}
