//! The worker processes in the view of the harness.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::plan::{END, IS_CALM, Order, WORKERS};
use crate::support::dice::Dice;
use crate::support::process::Process;
use crate::topology::Topology;

/// A worker that runs.
#[derive(Debug)]
struct Worker {
    order: Order,
    process: Process,
    stdin: ChildStdin,
    said: UnboundedReceiver<String>,
}

/// The remains of a worker: its ledger, and the way in which it ended.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) name: String,
    pub(crate) ledger: PathBuf,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was killed by the schedule.
    Killed,
    /// It ended when it was told to.
    Well,
    /// It ended when it was not told to, or with an error.
    Badly,
    /// It was told to be calm and was not in time.
    Hung,
}

/// The settings with which every worker is started.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The folder of the ledgers.
    pub(crate) folder: PathBuf,
    /// The addresses, one for each mode.
    pub(crate) urls: Vec<String>,
    pub(crate) topology: Topology,
    pub(crate) confirm: bool,
}

/// The workers of a run: at any time one of each mode.
#[derive(Debug)]
pub(crate) struct Crew {
    plan: Plan,
    dice: Dice,
    slots: Vec<Worker>,
    remains: Vec<Remains>,
    started: usize,
}

impl Crew {
    pub(crate) fn start(plan: Plan, dice: Dice) -> Result<Crew> {
        let mut crew = Crew {
            plan,
            dice,
            slots: Vec::new(),
            remains: Vec::new(),
            started: 0,
        };
        for mode in 0..WORKERS {
            let worker = crew.spawn(mode)?;
            crew.slots.push(worker);
        }
        Ok(crew)
    }

    pub(crate) fn name(&self, slot: usize) -> String {
        self.slots[slot].order.name.clone()
    }

    pub(crate) fn pause(&self, slot: usize) {
        self.slots[slot].process.pause();
    }

    pub(crate) fn resume(&self, slot: usize) {
        self.slots[slot].process.resume();
    }

    /// Kills the worker in this slot and starts another one of its mode.
    pub(crate) fn replace(&mut self, slot: usize) -> Result<()> {
        let mode = self.slots[slot].order.mode;
        let next = self.spawn(mode)?;
        let mut last = std::mem::replace(&mut self.slots[slot], next);
        let end = match last.process.ended() {
            // It had not been told to end.
            Some(_) => End::Badly,
            None => End::Killed,
        };
        last.process.kill();
        self.bury(last, end);
        Ok(())
    }

    /// Notifies all workers that the faults are over. A worker that does not respond in time hangs.
    pub(crate) async fn calm(&mut self) -> Result<()> {
        let topology = self.plan.topology;
        let end = Instant::now() + topology.calm() + topology.wait();
        for worker in &mut self.slots {
            // A worker that has ended early is found below.
            let _ = writeln!(worker.stdin, "{}", crate::plan::BE_CALM);
        }
        for mut worker in std::mem::take(&mut self.slots) {
            match timeout_at(end, worker.said.recv()).await {
                Ok(Some(line)) if line == IS_CALM => self.slots.push(worker),
                Ok(_) => self.bury(worker, End::Badly),
                Err(_) => self.bury(worker, End::Hung),
            }
        }
        Ok(())
    }

    /// Tells all workers to end, and waits until they have.
    pub(crate) async fn end(mut self) -> Vec<Remains> {
        let limit = Instant::now() + Duration::from_secs(10);
        for mut worker in std::mem::take(&mut self.slots) {
            let _ = writeln!(worker.stdin, "{END}");
            let end = loop {
                match worker.process.ended() {
                    Some(status) if status.success() => break End::Well,
                    Some(_) => break End::Badly,
                    None if Instant::now() > limit => break End::Hung,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            self.bury(worker, end);
        }
        self.remains
    }

    fn bury(&mut self, worker: Worker, end: End) {
        self.remains.push(Remains {
            name: worker.order.name,
            ledger: worker.order.ledger,
            end,
        });
    }

    fn spawn(&mut self, mode: usize) -> Result<Worker> {
        let name = format!("w{}", self.started);
        self.started += 1;
        let plan = &self.plan;
        let order = Order {
            url: plan.urls[mode].clone(),
            ledger: plan.folder.join(format!("{name}.jsonl")),
            name,
            mode,
            topology: plan.topology,
            confirm: plan.confirm,
            seed: self.dice.roll(1 << 31),
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["worker", &serde_json::to_string(&order)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command, None)?;
        let stdin = process.take_stdin().context("a pipe to the worker")?;
        let stdout = process.take_stdout().context("a pipe from the worker")?;
        let (sender, said) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker {
            order,
            process,
            stdin,
            said,
        })
    }
}
