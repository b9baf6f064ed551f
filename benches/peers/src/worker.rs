//! The other side of `crew`: the work of a worker process.
//!
//! It reports that it is ready, waits for a line, works, and responds with one line of JSON. It ends together with its
//! standard input, and so with its parent.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::contestant::{Held, Shared};
use crate::kind::Kind;
use crate::{clock, sections};

mod holder;
mod queue;

/// The line of a worker that is connected.
pub(crate) const READY: &str = "ready";

/// The order of one worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) url: String,
    pub(crate) kind: Kind,
    pub(crate) job: Job,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Acquires and releases on command. Responds with the times.
    Obey { key: String },
    /// Runs sections in a number of tasks for some time. Responds with a `sections::Served`.
    Sections(sections::Plan),
    /// Waits for many locks at the same time, until it is told to end.
    Queue { keys: Vec<String> },
    /// Holds many locks at the same time. Responds with the bytes for each lock.
    Hold { locks: usize },
}

/// Runs the order in the command line.
pub(crate) async fn run(order: &str) -> Result<()> {
    let Order { url, kind, job } = serde_json::from_str(order)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let lock = kind.connect(&url).await?;
    lock.section(&format!("warm-up:{}", kind.name())).await?;
    println!("{READY}");
    match job {
        Job::Obey { key } => return obey(&lock, &key, lines).await,
        Job::Sections(plan) => {
            command(&mut lines).await?;
            answer(&sections::serve(&lock, &plan).await?)?;
        }
        Job::Queue { keys } => {
            command(&mut lines).await?;
            queue::wait_for(&lock, keys).await?;
            answer(&())?;
        }
        Job::Hold { locks } => {
            command(&mut lines).await?;
            answer(&holder::bytes_each(&lock, locks).await?)?;
        }
    }
    // The parent closes the pipe when it has seen enough.
    let _ = command(&mut lines).await;
    Ok(())
}

type Commands = Lines<BufReader<Stdin>>;

async fn command(lines: &mut Commands) -> Result<String> {
    lines.next_line().await?.context("the parent has ended")
}

fn answer<T: Serialize>(value: &T) -> Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// The response to "acquire" is the time of the entry. The response to "release" is the time before the call.
async fn obey(lock: &Shared, key: &str, mut lines: Commands) -> Result<()> {
    let mut held: Option<Box<dyn Held>> = None;
    while let Some(line) = lines.next_line().await? {
        match held.take() {
            Some(hold) if line == "release" => {
                let called = clock::now();
                hold.release().await?;
                answer(&called)?;
            }
            None if line == "acquire" => {
                held = Some(lock.acquire(key).await?);
                answer(&clock::now())?;
            }
            _ => anyhow::bail!("{line} makes no sense now"),
        }
    }
    Ok(())
}
