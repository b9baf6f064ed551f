//! Worker processes from the view of their parent: an order as an argument, and lines through pipes.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::kind::Kind;
use crate::worker::{Job, Order, READY};

/// A worker process that is ready to begin.
#[derive(Debug)]
pub(crate) struct Worker {
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Worker {
    /// Starts this program once more, and waits until it is connected.
    pub(crate) async fn start(url: &str, kind: Kind, job: Job) -> Result<Worker> {
        let order = Order {
            url: url.to_owned(),
            kind,
            job,
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &serde_json::to_string(&order)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().context("a pipe to the worker")?;
        let stdout = child.stdout.take().context("a pipe from the worker")?;
        let mut worker = Worker {
            stdin,
            stdout: BufReader::new(stdout).lines(),
            _child: child,
        };
        anyhow::ensure!(worker.line().await? == READY, "the worker is not ready");
        Ok(worker)
    }

    /// Sends one line.
    pub(crate) async fn tell(&mut self, line: &str) -> Result<()> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// The next response.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    async fn line(&mut self) -> Result<String> {
        let line = self.stdout.next_line().await?;
        line.context("a worker has ended; its error is above")
    }
}

/// `count` workers with the same order, all of them ready.
pub(crate) async fn crew(url: &str, kind: Kind, job: &Job, count: usize) -> Result<Vec<Worker>> {
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(Worker::start(url, kind, job.clone()).await?);
    }
    Ok(workers)
}
