//! A worker in the background: several jobs at a time, but of each account only one, among all processes there are.
//!
//! `cargo run --example worker`, or with `REDIS_URL=redis://127.0.0.1:6379` in several terminals.
//!
//! SIGTERM or Ctrl-C ends it: no job begins any more, jobs that wait for a lock go back to the queue at once, jobs that
//! have one finish, and no lock is left.

use std::error::Error;
use std::time::Duration;
use std::{env, io};

use reentry::{LockError, Locks, locked};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const WORKERS: usize = 3;
const ACCOUNTS: usize = 2;
/// How long jobs that have a lock may go on after the signal.
const BODIES: Duration = Duration::from_secs(20);
/// How long what comes after their locks may take.
const REST: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;

/// One job. It is dropped at an `.await` where the lock is lost: each step can be done again.
#[locked("account:{account}", held = lock)]
async fn bill(job: usize, account: usize) -> Result<(), LockError> {
    let token = lock.fencing_token();
    tracing::info!(job, account, %token, "begun");
    // Stands for the work. The token goes along with each write, so that one of an older holder is refused.
    sleep(Duration::from_secs(1)).await;
    tracing::info!(job, account, "done");
    Ok(())
}

/// Takes one job after the other. The queue that they come from is outside of this example: here they are counted.
async fn work(worker: usize, stop: CancellationToken) {
    let mut ticks = interval(Duration::from_millis(100));
    for job in (worker..).step_by(WORKERS) {
        // The token ends the wait for the next job, and not the job.
        if stop.run_until_cancelled(ticks.tick()).await.is_none() {
            return;
        }
        if let Err(error) = bill(job, job % ACCOUNTS).await {
            let cause = &error as &dyn Error;
            tracing::warn!(job, cause, "back in the queue");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    // It connects at the first job.
    run(Locks::builder().url(url).build_lazy()?).await
}

/// Works until SIGTERM or Ctrl-C, and then until all jobs that have begun are over.
pub(crate) async fn run(locks: Locks) -> Result<(), Failure> {
    locks.install()?;
    let end = signalled()?;
    let (stop, workers) = (CancellationToken::new(), TaskTracker::new());
    for worker in 0..WORKERS {
        workers.spawn(work(worker, stop.clone()));
    }
    end.await;
    // First no job begins any more.
    stop.cancel();
    workers.close();
    // Before the workers are awaited, not after: one that waits for a lock may do so for a minute, and then has a job
    // to do. Now it gives up at once, and those with a lock go on.
    let report = locks.close_within(BODIES).await;
    println!("locks closed: {report}");
    if timeout(REST, workers.wait()).await.is_err() {
        println!("{} workers are still busy", workers.len());
    }
    Ok(())
}

/// Resolves at SIGTERM or Ctrl-C; also if that comes after this call, but before it is awaited.
#[cfg(unix)]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
