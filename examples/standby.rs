//! Hot standby: of several processes one does a periodic job, and another takes over when it dies
//! or loses Redis.
//!
//! Start it in several terminals, stop the one that works by Ctrl-C, kill the next one, stop and start Redis:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example standby
//! ```
//!
//! One that is stopped, by Ctrl-C or SIGTERM, closes its locks: the next one takes over at once. One that is killed cannot;
//! then the next one waits until the lease ends.
//!
//! Without `REDIS_URL` three replicas run as tasks of this process on the in-memory store, and each
//! that works is killed after its third tick.

use std::{
    collections::HashMap, convert::Infallible, error::Error, future::pending, time::Duration,
};

use reentry::{LockError, Locks};
use tokio::{sync::mpsc, task::JoinHandle, time::sleep};

const KEY: &str = "standby:report";
const TICK: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), LockError> {
    match std::env::var("REDIS_URL") {
        Ok(url) => {
            let name = std::process::id().to_string();
            // Redis may be down when the process starts.
            let builder = Locks::builder().url(url).ttl(Duration::from_secs(2));
            let locks = builder.wait_forever().build_lazy()?;
            tokio::select! {
                ended = replica(&locks, &name, |_tick| {}) => ended?,
                () = shutdown() => println!("{name}: stopping"),
            }
            println!(
                "{name}: {}",
                locks.close_within(Duration::from_secs(1)).await
            );
            Ok(())
        }
        Err(_) => rehearse().await,
    }
}

/// Until the process is asked to end.
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

/// An error and its causes; the innermost names the host and the port.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Waits for its turn, works until it loses the lock, and waits again. Only an error that waiting
/// cannot mend ends it.
async fn replica(locks: &Locks, name: &str, ticked: impl Fn(u32)) -> Result<(), LockError> {
    loop {
        println!("{name}: standing by");
        match locks.with_lock(KEY, job(name, &ticked)).await {
            Ok(never) => match never {},
            Err(error) if error.is_lost() => println!("{name}: stepped down: {}", chain(&error)),
            Err(error) => return Err(error),
        }
    }
}

/// The job never ends by itself: it is dropped at once when the lock is lost.
async fn job(name: &str, ticked: impl Fn(u32)) -> Infallible {
    let token =
        reentry::held(KEY).map_or_else(String::new, |held| held.fencing_token().to_string());
    let mut tick = 0;
    loop {
        tick += 1;
        println!("{name}: tick {tick} under token {token}");
        ticked(tick);
        sleep(TICK).await;
    }
}

/// Three replicas in one process. Whichever works is killed after its third tick.
async fn rehearse() -> Result<(), LockError> {
    let locks = Locks::builder()
        .url("memory:")
        .wait_forever()
        .build()
        .await?;
    let (ticks, mut ticked) = mpsc::unbounded_channel();
    let mut replicas: HashMap<_, JoinHandle<_>> = ["anna", "bert", "cleo"]
        .into_iter()
        .map(|name| {
            let (locks, ticks) = (locks.clone(), ticks.clone());
            let report = move |tick| {
                // No process counts any more once all are killed.
                let _ = ticks.send((name, tick));
            };
            let running = tokio::spawn(async move { replica(&locks, name, report).await });
            (name, running)
        })
        .collect();
    drop(ticks);
    while let Some((name, tick)) = ticked.recv().await {
        if tick == 3
            && let Some(working) = replicas.remove(name)
        {
            working.abort();
            println!("{name}: killed");
        }
    }
    Ok(())
}
