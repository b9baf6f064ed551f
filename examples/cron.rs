//! A nightly job on many machines: one of them runs it in each night, even if another one dies while it does so.
//!
//! ```text
//! cargo run --example cron      # or with REDIS_URL=redis://127.0.0.1:6379 in several terminals
//! cargo test --example cron --features test-util
//! ```
//!
//! A night of this program takes three seconds. Without `REDIS_URL`, the program simulates five nights of three machines.
//! They are tasks of this process, and their clocks differ by half a second. The first one dies in its third night.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::AsyncCommands;
use reentry::Locks;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The time from one night to the next.
const PERIOD: Duration = Duration::from_secs(3);
/// How long the job takes.
const TAKES: Duration = Duration::from_secs(1);
/// How long a machine pauses after a job that failed.
const PAUSE: Duration = Duration::from_millis(200);

type Failure = Box<dyn Error + Send + Sync>;

/// Every machine calls this in every night. Returns whether this machine did the job.
///
/// All machines wait for the lock, and the one that enters looks first. If a machine dies at work, the next one finds no
/// record of this night, and runs the job.
async fn nightly(
    locks: &Locks,
    record: &Record,
    night: u64,
    job: impl Future<Output = Result<(), Failure>>,
) -> Result<bool, Failure> {
    let turn = locks.lock("job:nightly").wait(Duration::MAX);
    turn.try_run(async {
        if record.last_night().await? >= night {
            return Ok(false);
        }
        job.await?;
        record.write(night).await?;
        Ok(true)
    })
    .await
}

/// The last night whose job is done, which all machines see. A real program has it in its database, and writes it in the
/// transaction of the job.
#[derive(Clone)]
enum Record {
    Memory(Arc<AtomicU64>),
    Redis(Arc<redis::Client>),
}

impl Record {
    const KEY: &str = "done:job:nightly";

    async fn last_night(&self) -> Result<u64, Failure> {
        match self {
            Self::Memory(night) => Ok(night.load(Ordering::SeqCst)),
            Self::Redis(client) => {
                let mut redis = client.get_multiplexed_async_connection().await?;
                let night: Option<u64> = redis.get(Self::KEY).await?;
                Ok(night.unwrap_or_default())
            }
        }
    }

    async fn write(&self, night: u64) -> Result<(), Failure> {
        match self {
            Self::Memory(last) => last.store(night, Ordering::SeqCst),
            Self::Redis(client) => {
                let mut redis = client.get_multiplexed_async_connection().await?;
                redis.set::<_, _, ()>(Self::KEY, night).await?;
            }
        }
        Ok(())
    }
}

/// A machine whose clock is slow by this time.
async fn machine(locks: &Locks, record: &Record, name: &str, slow_by: Duration, nights: u32) {
    for _ in 0..nights {
        let (night, begins) = next_night();
        sleep(begins + slow_by).await;
        let job = || async {
            println!("{name}: runs the job of night {night}");
            sleep(TAKES).await;
            Ok(())
        };
        loop {
            match nightly(locks, record, night, job()).await {
                Ok(true) => break println!("{name}: it is done"),
                Ok(false) => break println!("{name}: another machine has done it"),
                Err(error) => println!("{name}: tries again: {error}"),
            }
            sleep(PAUSE).await;
        }
    }
}

/// The number of the next night, and the time until it begins.
fn next_night() -> (u64, Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let night = now.as_secs() / PERIOD.as_secs() + 1;
    let begin = Duration::from_secs(night * PERIOD.as_secs());
    (night, begin.saturating_sub(now))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        rehearse().await;
        return Ok(());
    };
    let record = Record::Redis(redis::Client::open(&*url)?.into());
    // As long as another machine waits after the death of the one at work.
    let ttl = Duration::from_secs(2);
    let locks = Locks::builder(url).ttl(ttl).build_lazy()?;
    let name = std::process::id().to_string();
    tokio::select! {
        () = machine(&locks, &record, &name, Duration::ZERO, u32::MAX) => {}
        _ = tokio::signal::ctrl_c() => println!("{name}: stopping"),
    }
    println!("{name}: {}", locks.close(Duration::from_secs(1)).await);
    Ok(())
}

async fn rehearse() {
    let locks = Locks::in_memory();
    let record = Record::Memory(Arc::default());
    let dies_in = next_night().1 + 2 * PERIOD + TAKES / 2;
    let mut machines = JoinSet::new();
    for (name, slow_by, lives) in [
        ("anna", 0, dies_in),
        ("bert", 250, Duration::MAX),
        ("cleo", 500, Duration::MAX),
    ] {
        let (locks, record) = (locks.clone(), record.clone());
        let slow_by = Duration::from_millis(slow_by);
        machines.spawn(async move {
            let nights = machine(&locks, &record, name, slow_by, 5);
            if timeout(lives, nights).await.is_err() {
                println!("{name}: dies");
            }
        });
    }
    machines.join_all().await;
}

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests {
    use reentry::testing::Server;
    use tokio::join;

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);
    const TTL: Duration = Duration::from_secs(30);

    /// A machine, whose clock may be slow.
    struct Machine {
        locks: Locks,
        record: Record,
        slow_by: Duration,
    }

    impl Machine {
        /// Runs the job of this night, which takes ten minutes, or finds it done.
        async fn has_run(&self, night: u64) -> bool {
            sleep(self.slow_by).await;
            let job = async {
                sleep(TEN_MINUTES).await;
                Ok(())
            };
            let ran = nightly(&self.locks, &self.record, night, job).await;
            ran.unwrap()
        }
    }

    /// The clock of the last one is so slow that it comes when the job is done.
    fn machines(server: &Server) -> [Machine; 3] {
        let record = Record::Memory(Arc::default());
        [Duration::ZERO, TTL, 3 * TEN_MINUTES].map(|slow_by| Machine {
            locks: server.builder().ttl(TTL).build_lazy().unwrap(),
            record: record.clone(),
            slow_by,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_three_machines_runs_the_job_each_night() {
        let [anna, bert, cleo] = machines(&Server::new());
        for night in 1..=5 {
            let all = join!(
                anna.has_run(night),
                bert.has_run(night),
                cleo.has_run(night)
            );
            assert_eq!(all, (true, false, false), "{night}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_machine_runs_the_job_of_one_that_dies_at_work() {
        let server = Server::new();
        let [anna, bert, cleo] = machines(&server);
        let dies = async {
            let death = async {
                sleep(TEN_MINUTES / 2).await;
                server.partition(&anna.locks); // as after SIGKILL, not even a release is sent
            };
            tokio::select! {
                _ = anna.has_run(1) => panic!("it dies at work"),
                () = death => {}
            }
        };
        let ((), bert_ran, cleo_ran) = join!(dies, bert.has_run(1), cleo.has_run(1));
        assert_eq!((bert_ran, cleo_ran), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_failed_is_run_again() {
        let [anna, bert, _] = machines(&Server::new());
        let fails = async { Err("no space left".into()) };
        let failed = nightly(&anna.locks, &anna.record, 1, fails).await;
        assert!(failed.is_err());
        assert!(bert.has_run(1).await);
        assert!(!anna.has_run(1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_is_a_night_late_runs_nothing() {
        let [anna, bert, _] = machines(&Server::new());
        assert!(anna.has_run(2).await);
        assert!(!bert.has_run(1).await);
    }
}
