//! The other side of `crew`: what a worker process does.
//!
//! It says that it is ready, waits for a line, works, and answers with one line of JSON. It ends
//! with its standard input, and so with its parent.

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

/// What one worker is started for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) url: String,
    pub(crate) kind: Kind,
    pub(crate) job: Job,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Acquires and releases at command; answers with the times.
    Obey { key: String },
    /// Sections in a number of tasks for some time; answers with a `sections::Served`.
    Sections(sections::Plan),
    /// Waits for many locks at once, until it is told to end.
    Queue { keys: Vec<String> },
    /// Holds many locks at once; answers with the bytes that each takes.
    Hold { locks: usize },
}

/// Runs the order that the command line carries.
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

/// "acquire" is answered with the time of entry, "release" with the time before the call.
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
