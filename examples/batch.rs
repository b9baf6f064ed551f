//! A long batch that lets others in: it works in steps under one lock, and releases the lock between two steps if it is
//! wanted.
//!
//! ```text
//! cargo run --example batch
//! ```

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use reentry::{Held, LockError, Locks};
use tokio::select;
use tokio::time::sleep;

const STEPS: u32 = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Locks::in_memory();
    let batch = tokio::spawn(batch(locks.clone()));
    sleep(Duration::from_millis(150)).await;
    locks
        .with_lock("stock", async { println!("an order") })
        .await?;
    Ok(batch.await??)
}

/// Counts the whole stock.
async fn batch(locks: Locks) -> Result<(), LockError> {
    let mut guard = locks.lock("stock").await?;
    for step in 1..=STEPS {
        let wanted = is_wanted_during(guard.held(), count(step)).await;
        if wanted && step < STEPS {
            println!("the batch lets others in");
            guard.release().await?;
            guard = locks.lock("stock").await?;
        }
    }
    guard.release().await
}

/// Runs a step to its end. Returns whether the lock was wanted by then.
async fn is_wanted_during(held: &Held, step: impl Future<Output = ()>) -> bool {
    let mut step = pin!(step);
    select! {
        () = held.wanted() => {}
        () = &mut step => return false,
    }
    step.await;
    true
}

/// One step, which leaves the stock in a state that others may see.
async fn count(step: u32) {
    sleep(Duration::from_millis(100)).await;
    println!("step {step} of {STEPS}");
}
