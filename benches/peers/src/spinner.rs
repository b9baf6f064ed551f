//! Keeps the cores awake, so that a wake-up costs the same as on a busy machine.

use std::process::Stdio;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// One idle-priority process for each core. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Spinners {
    _children: Vec<Child>,
}

impl Spinners {
    pub(crate) fn start() -> Result<Spinners> {
        let cores = std::thread::available_parallelism()?.get();
        let children = (0..cores).map(|_| spawn()).collect::<Result<_>>()?;
        Ok(Spinners {
            _children: children,
        })
    }
}

/// With SCHED_IDLE if there is a `chrt`, otherwise as nice as possible.
fn spawn() -> Result<Child> {
    let program = std::env::current_exe()?;
    let with = |words: &[&str]| {
        let (name, args) = words.split_first().unwrap_or((&"nice", &[]));
        Command::new(name)
            .args(args)
            .arg(&program)
            .arg("spin")
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    };
    Ok(with(&["chrt", "--idle", "0"]).or_else(|_| with(&["nice", "-n", "19"]))?)
}

/// Spins until the parent has ended.
pub(crate) async fn spin() -> Result<()> {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {}
    Ok(())
}
