//! A pool of workers: several jobs at a time, but only one for each account, across all processes.
//!
//! ```text
//! cargo run --example worker      # or with REDIS_URL=redis://127.0.0.1:6379 in several terminals
//! cargo test --package reentry-services --example worker
//! ```
//!
//! SIGTERM or Ctrl-C ends it: no further job begins, jobs that wait for a lock return to the queue immediately, jobs that
//! hold a lock finish, and no lock is left.

mod signal;

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reentry::{FencingToken, LockError, Locks, LocksBuilder, locked};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const WORKERS: usize = 3;
/// How long a worker pauses if there is no job, or if a job failed.
const PAUSE: Duration = Duration::from_millis(100);
/// How long jobs that hold a lock may continue after the signal.
const BODIES: Duration = Duration::from_secs(20);
/// How long the workers may take after that.
const REST: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;

/// A bill that must be written. The key of its lock names the account, and not the job.
#[derive(Clone, Copy)]
struct Job {
    id: u64,
    account: u64,
}

/// The queue of jobs and the bills, which all processes share. For example, they are two tables of a database.
#[derive(Default)]
struct Office {
    jobs: Mutex<VecDeque<Job>>,
    bills: Mutex<Vec<(u64, FencingToken)>>,
}

impl Office {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bills(&self) -> MutexGuard<'_, Vec<(u64, FencingToken)>> {
        self.bills.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One job. Each write carries the token. If the lock is lost, the body is dropped at an `.await`.
#[locked("account:{job.account}", held = lock)]
async fn bill(office: &Office, job: Job) -> Result<(), LockError> {
    tracing::info!(job.id, job.account, "begun");
    sleep(Duration::from_secs(1)).await; // the work
    office.bills().push((job.id, lock.fencing_token()));
    Ok(())
}

/// One worker. `stop` ends the wait for the next job, but not the current job.
async fn work(office: Arc<Office>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let next = office.jobs().pop_front();
        if let Some(job) = next {
            let Err(error) = bill(&office, job).await else {
                continue;
            };
            // The job was not begun, or is half done if `error.is_lost()`. A bill can be written again.
            let cause = &error as &dyn Error;
            tracing::warn!(job.id, cause, "back in the queue");
            office.jobs().push_back(job);
        }
        stop.run_until_cancelled(sleep(PAUSE)).await;
    }
}

/// The settings that the program and its tests share, whatever store they use. It connects at the first job.
fn configured(locks: LocksBuilder) -> Result<Locks, LockError> {
    let locks = locks.prefix("office:").wait(Duration::from_secs(10));
    locks.ttl(Duration::from_secs(5)).build_lazy()
}

/// Works until `end`, and then until all jobs that have begun are finished.
async fn run(locks: Locks, office: &Arc<Office>, end: impl Future<Output = ()>) {
    let (stop, workers) = (CancellationToken::new(), TaskTracker::new());
    for _ in 0..WORKERS {
        let worker = work(Arc::clone(office), stop.clone());
        workers.spawn(locks.scope(worker));
    }
    end.await;
    // 1. No further job begins.
    stop.cancel();
    workers.close();
    // 2. Jobs that wait for a lock return to the queue now. Jobs that hold a lock continue.
    println!("locks closed: {}", locks.close(BODIES).await);
    // 3. Work that a job does after it has released its lock may take this time.
    if timeout(REST, workers.wait()).await.is_err() {
        println!("{} workers are still busy", workers.len());
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = configured(Locks::builder(url))?;
    let office = Arc::<Office>::default();
    let jobs = (0..20).map(|id| Job {
        id,
        account: id % 2,
    });
    office.jobs().extend(jobs);
    run(locks, &office, signal::terminated()?).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use reentry::testing::Server;
    use tokio::join;
    use tokio::time::Instant;

    use super::*;

    /// How long a job takes.
    const WORK: Duration = Duration::from_secs(1);

    /// The locks of two processes on one server, and an office with a job for each of these accounts.
    fn processes(accounts: &[u64]) -> (Server, Locks, Locks, Arc<Office>) {
        let (server, office) = (Server::new(), Arc::<Office>::default());
        let [one, other] = [(); 2].map(|()| configured(server.builder()).unwrap());
        for (id, &account) in (0..).zip(accounts) {
            office.jobs().push_back(Job { id, account });
        }
        (server, one, other, office)
    }

    /// Waits until this number of bills is written. Returns the jobs in the order of their bills.
    async fn billed(office: &Office, count: usize) -> Vec<u64> {
        let written = async {
            while office.bills().len() < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(60 * WORK, written).await.unwrap();
        office.bills().iter().map(|(job, _)| *job).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_of_one_account_take_turns_in_all_processes() {
        let (_server, one, other, office) = processes(&[7, 7, 7, 7]);
        let start = Instant::now();
        let end = || async { drop(billed(&office, 4).await) };
        join!(run(one, &office, end()), run(other, &office, end()));
        assert!(start.elapsed() >= 4 * WORK);
        let tokens: Vec<_> = office.bills().iter().map(|(_, token)| *token).collect();
        assert!(tokens.is_sorted(), "{tokens:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_of_different_accounts_run_side_by_side() {
        let (_server, one, _other, office) = processes(&[1, 2, 3]);
        let start = Instant::now();
        run(one, &office, async { drop(billed(&office, 3).await) }).await;
        assert!(start.elapsed() < 2 * WORK);
    }

    #[tokio::test(start_paused = true)]
    async fn each_job_is_done_once_the_server_of_the_locks_is_back() {
        let (server, one, _other, office) = processes(&[1, 2, 3, 1, 2, 3]);
        server.stop();
        let outage = async {
            sleep(Duration::from_secs(60)).await;
            assert!(office.bills().is_empty());
            server.start();
            let mut jobs = billed(&office, 6).await;
            jobs.sort_unstable();
            assert_eq!(jobs, [0, 1, 2, 3, 4, 5]);
        };
        run(one, &office, outage).await;
    }

    /// Its body is dropped when the lock is lost, and the job returns to the queue.
    #[tokio::test(start_paused = true)]
    async fn another_process_does_the_job_whose_lock_was_lost() {
        let (_server, one, other, office) = processes(&[7]);
        let operator = async {
            sleep(WORK / 2).await;
            assert!(other.admin().force_release("account:7").await.unwrap());
            sleep(PAUSE / 2).await;
            assert_eq!(office.jobs().len(), 1);
            assert!(office.bills().is_empty());
        };
        run(one, &office, operator).await;
        let end = async { assert_eq!(billed(&office, 1).await, [0]) };
        run(other.clone(), &office, end).await;
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_a_job_finishes_and_one_that_waits_goes_back() {
        let (_server, one, other, office) = processes(&[1, 2]);
        let _elsewhere = other.lock("account:2").await.unwrap();
        let start = Instant::now();
        run(one, &office, sleep(WORK / 2)).await;
        assert_eq!(billed(&office, 1).await, [0]);
        assert_eq!(office.jobs().front().map(|job| job.id), Some(1));
        assert!(start.elapsed() < 2 * WORK);
        assert!(other.lock("account:1").no_wait().await.is_ok());
    }

    /// The whole pool with a real signal, which needs real time.
    #[cfg(unix)]
    #[tokio::test]
    async fn sigterm_lets_the_job_finish() {
        use std::process::{self, Command};

        let (_server, one, other, office) = processes(&[7]);
        let end = signal::terminated().unwrap();
        let signal = async {
            while !office.jobs().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
            let kill = Command::new("kill").arg(process::id().to_string()).status();
            assert!(kill.unwrap().success());
        };
        join!(run(one, &office, end), signal);
        // The job is finished, or back in the queue if the signal arrived before the lock was acquired.
        assert_eq!(office.bills().len() + office.jobs().len(), 1);
        assert!(other.lock("account:7").no_wait().await.is_ok());
    }
}
