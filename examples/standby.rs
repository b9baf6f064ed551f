//! Hot standby: one of several processes does a periodic job. Another one takes over when that
//! process dies or loses Redis.
//!
//! Start it in several terminals. Stop the leader with Ctrl-C, kill the next one, and stop and start Redis:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example standby
//! ```
//!
//! A process that is stopped by Ctrl-C or SIGTERM closes its locks, and the next one takes over immediately. A process that
//! is killed cannot do that. Then the next one waits until the lease expires.
//!
//! Without `REDIS_URL`, three replicas run as tasks of this process on the in-memory store. Each leader is killed after its
//! third tick.

use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use reentry::{Held, LockError, Locks};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const TICK: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        return rehearse().await;
    };
    let name = std::process::id().to_string();
    // Redis may be unavailable when the process starts, and later.
    let builder = Locks::builder(url).ttl(Duration::from_secs(2));
    let locks = builder.build_lazy()?;
    tokio::select! {
        ended = replica(&locks, &name, |_tick| {}) => ended?,
        () = shutdown() => println!("{name}: stopping"),
    }
    let report = locks.close(Duration::from_secs(1)).await;
    println!("{name}: {report}");
    Ok(())
}

/// Stands by until it leads, leads until it loses Redis or is dropped, and stands by again. It returns only an error that
/// waiting cannot resolve.
async fn replica(locks: &Locks, name: &str, ticked: impl Fn(u32)) -> Result<(), LockError> {
    println!("{name}: standing by");
    let request = locks.lock("standby:report");
    request.lead(|lock| job(name, lock, &ticked)).await
}

/// The job never ends by itself. It is dropped immediately when the lock is lost.
async fn job(name: &str, lock: Held, ticked: impl Fn(u32)) {
    let _stepping_down = SteppingDown(name);
    for tick in 1.. {
        println!("{name}: tick {tick} under token {}", lock.fencing_token());
        ticked(tick);
        sleep(TICK).await;
    }
}

/// Prints a message when the job ends, for whatever reason.
struct SteppingDown<'a>(&'a str);

impl Drop for SteppingDown<'_> {
    fn drop(&mut self) {
        println!("{}: no longer the leader", self.0);
    }
}

/// Waits until the process is asked to end.
async fn shutdown() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(_) => pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = pending::<()>();
    tokio::select! {
        _ = interrupted => {}
        () = terminated => {}
    }
}

/// Runs three replicas in one process. Each leader is killed after its third tick.
async fn rehearse() -> Result<(), LockError> {
    let locks = Locks::in_memory();
    let (ticks, mut ticked) = mpsc::unbounded_channel();
    let mut replicas: HashMap<_, JoinHandle<_>> = ["anna", "bert", "cleo"]
        .into_iter()
        .map(|name| {
            let (locks, ticks) = (locks.clone(), ticks.clone());
            let report = move |tick| {
                // When all replicas are killed, the receiver is dropped.
                let _ = ticks.send((name, tick));
            };
            let running = tokio::spawn(async move { replica(&locks, name, report).await });
            (name, running)
        })
        .collect();
    drop(ticks);
    while let Some((name, tick)) = ticked.recv().await {
        if tick == 3
            && let Some(leading) = replicas.remove(name)
        {
            println!("{name}: killed");
            leading.abort();
        }
    }
    Ok(())
}
