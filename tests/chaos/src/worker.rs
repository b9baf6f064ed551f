//! A worker process: tasks that want the same locks as all other workers.
//!
//! It receives its orders as lines on its standard input, and ends with it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use reentry::Locks;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ledger::{Ledger, What};
use crate::plan::{BE_CALM, END, IS_CALM, KEYS, Mode, Order, TASKS};
use crate::program;
use crate::section::Client;
use crate::support::dice::Dice;

pub(crate) async fn run(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order)?;
    let ledger = Ledger::create(&order.ledger)?;
    let mode = Mode::of(&order);
    let locks = connect(&order).await;
    locks.install()?;
    let client = Arc::new(Client {
        mode,
        topology: order.topology,
        locks,
        ledger,
    });
    let (stop, stopped) = watch::channel(false);
    let mut dice = Dice(order.seed);
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let dice = Dice(dice.roll(1 << 31));
        tasks.spawn(program::run(Arc::clone(&client), dice, stopped.clone()));
    }

    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let told = orders.next_line().await?.context("the harness is gone")?;
    anyhow::ensure!(told == BE_CALM, "{told} makes no sense now");
    stop.send_replace(true);
    finish(tasks).await?;
    let mut tasks = JoinSet::new();
    for key in KEYS {
        tasks.spawn(calm(Arc::clone(&client), key));
    }
    finish(tasks).await?;
    println!("{IS_CALM}");
    let told = orders.next_line().await?.context("the harness is gone")?;
    anyhow::ensure!(told == END, "{told} makes no sense now");
    Ok(())
}

/// A worker may be started while the server is unreachable.
async fn connect(order: &Order) -> Locks {
    loop {
        match order.builder().build().await {
            Ok(locks) => return locks,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn finish(mut tasks: JoinSet<()>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

/// The harness limits how long that may take.
async fn calm(client: Arc<Client>, key: &'static str) {
    while !program::once(&client, key).await {}
    let op = client.ledger.next_op();
    let key = key.to_owned();
    client.ledger.write_now(op, What::Calm { key });
}
