//! Tasks that acquire and release locks for a while.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reentry::Locks;

/// The results of the tasks.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) sections: usize,
    pub(crate) elapsed: Duration,
    /// The duration of each section.
    pub(crate) times: Vec<Duration>,
}

impl Ran {
    pub(crate) fn per_second(&self) -> f64 {
        self.sections as f64 / self.elapsed.as_secs_f64()
    }

    /// In µs.
    pub(crate) fn median(&self) -> f64 {
        let times = self.times.iter().map(|it| it.as_secs_f64() * 1e6);
        super::numbers::median(&times.collect::<Vec<_>>())
    }
}

/// Runs a number of tasks for a time. Each task uses its own keys in turn.
pub(crate) async fn run(locks: &Locks, tasks: usize, keys: usize, time: Duration) -> Ran {
    let begin = Instant::now();
    let tasks = (0..tasks).map(|task| {
        let locks = locks.clone();
        tokio::spawn(async move {
            let keys: Vec<_> = (0..keys).map(|key| format!("order:{task}:{key}")).collect();
            let mut times = Vec::new();
            for key in keys.iter().cycle() {
                let before = Instant::now();
                if before - begin >= time {
                    break;
                }
                locks.with_lock(key, async {}).await.expect("a free lock");
                times.push(before.elapsed());
            }
            times
        })
    });
    let times = join_all(tasks.collect::<Vec<_>>()).await;
    let elapsed = begin.elapsed();
    let times: Vec<_> = times
        .into_iter()
        .flat_map(|it| it.expect("no panic"))
        .collect();
    Ran {
        sections: times.len(),
        elapsed,
        times,
    }
}
