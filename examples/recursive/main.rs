//! Two contenders for one lock. Each acquires it in an outermost call, and the nested calls re-enter it. The example
//! prints who holds the lock, who waits and for whom, and whose lease is renewed and for how long.
//!
//! ```text
//! cargo run --example recursive                              # two tasks, on the in-memory store
//! export REDIS_URL=redis://127.0.0.1:6379
//! cargo run --example recursive                              # two processes, on a server
//! cargo run --example recursive -- --contender cleo          # one more, in another terminal
//! ```
//!
//! Ctrl-C ends it early. No lock is left behind.

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;
use std::{env, process};

use reentry::{LockError, Locks, current, locked};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::signal::ctrl_c;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::{Instrument, info, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod plain_words;
use plain_words::{PlainWords, names, print};

const KEY: &str = "order:42";
/// Shorter than the work of a contender under the lock. The lease is renewed every third of it.
const TTL: Duration = Duration::from_secs(3);

type Failure = Box<dyn Error + Send + Sync>;
/// Receives a message when the first contender has the lock.
type First = Option<oneshot::Sender<()>>;

/// The outermost call, which waits for the lock. The first contender reports when it has the lock.
async fn ship(locks: Locks, first: First) -> Result<(), LockError> {
    let process = process::id();
    info!("wants {KEY} in leases of {TTL:?}, in process {process}");
    let body = async {
        if let Some(has_it) = first {
            let _ = has_it.send(());
            until_wanted(&locks).await?;
        }
        work("reads the order").await;
        charge(42).await?;
        work("prints the label").await;
        pack(42, 1).await?;
        work("ships the order").await;
        Ok(())
    };
    locks.try_with_lock(KEY, body).await
}

/// Acquires the lock itself, whether or not its caller holds it.
#[locked("order:{id}")]
async fn charge(id: u32) -> Result<(), LockError> {
    work("charges the card").await;
    Ok(())
}

/// Does the same by recursion. No code boxes the future by hand.
#[locked("order:{id}")]
async fn pack(id: u32, parcel: u32) -> Result<(), LockError> {
    work(&format!("packs parcel {parcel}")).await;
    if parcel < 2 {
        pack(id, parcel + 1).await?;
    }
    work(&format!("closes parcel {parcel}")).await;
    Ok(())
}

async fn work(what: &str) {
    let depth = current().map_or(0, |lock| lock.depth());
    info!("{}{what}, at depth {depth}", "  ".repeat(depth as usize));
    sleep(Duration::from_millis(400)).await;
}

/// Waits until another caller waits for the lock, here or in another process. Before that, there is little to see.
async fn until_wanted(locks: &Locks) -> Result<(), LockError> {
    while let Some(lock) = locks.admin().inspect(KEY).await? {
        if lock.waiters > 0 || lock.waiting_processes > 0 {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::registry().with(PlainWords).init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let is_shared = url != "memory:";
    let locks = Locks::builder(url).ttl(TTL).build().await?;
    locks.install()?;
    tokio::spawn(close_at_ctrl_c(locks.clone()));
    let args: Vec<_> = env::args().skip(1).collect();
    let ended = match &args[..] {
        [] => {
            let (has_it, anna_has_it) = oneshot::channel();
            let bert = async {
                match anna_has_it.await {
                    Ok(()) if is_shared => process("bert").await,
                    Ok(()) => task("bert", &locks, None).await,
                    Err(_) => Ok(()),
                }
            };
            tokio::try_join!(task("anna", &locks, Some(has_it)), bert).map(|_| ())
        }
        [option, name] if option == "--contender" => task(name, &locks, None).await,
        _ => Err("usage: recursive [--contender NAME]".into()),
    };
    // Ends the calls that are still running, and waits until all locks are released.
    locks.close(Duration::ZERO).await;
    ended
}

/// At Ctrl-C, a contender that waits gives up. The body of one that holds the lock is dropped, and its lock is
/// released.
async fn close_at_ctrl_c(locks: Locks) {
    if ctrl_c().await.is_ok() {
        locks.close(Duration::ZERO).await;
    }
}

/// Runs a contender in its own task.
async fn task(name: &str, locks: &Locks, first: First) -> Result<(), Failure> {
    let contender = ship(locks.clone(), first).instrument(info_span!("contender", name));
    match tokio::spawn(contender).await? {
        Err(error) if !error.is_closed() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Runs a contender in its own process. Its output is printed here, with the names that only this process knows.
async fn process(name: &str) -> Result<(), Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--contender", name]).stdout(Stdio::piped());
    let mut process = command.spawn()?;
    let output = process.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        let named = |line: String, (id, name): (&String, &String)| line.replace(id, name);
        print(&names().iter().fold(line, named));
    }
    match process.wait().await? {
        status if status.success() => Ok(()),
        status => Err(format!("{name}: {status}").into()),
    }
}
