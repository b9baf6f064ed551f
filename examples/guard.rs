//! A lock as a value, for code that does not fit into one body. It is held across two steps, re-entered by a call in
//! between, and checked for its loss.
//!
//! `cargo run --example guard`, or with `REDIS_URL=redis://127.0.0.1:6379` on a server.

use std::time::Duration;

use reentry::{LockError, Locks};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::connect(url).await?;

    let guard = locks
        .lock("import")
        .ttl(Duration::from_secs(5))
        .acquire()
        .await?;
    println!("held with token {}", guard.held().fencing_token());

    // Another call graph cannot enter.
    let second = locks.lock("import").try_acquire().await?;
    println!("a second attempt acquired the lock: {}", second.is_some());

    // A call inside the guard's scope can.
    let depth = guard.scope(import(&locks)).await??;
    println!("a call inside its scope re-entered to depth {depth}");

    // An operator takes the lock away. The guard learns of it at its next renewal.
    locks.admin().force_release("import").await?;
    let reason = guard.held().lost().await;
    println!("lost: {reason}");
    match guard.release().await {
        Err(error) if error.is_lost() => println!("the release reports it: {error}"),
        other => println!("unexpected: {other:?}"),
    }
    Ok(())
}

async fn import(locks: &Locks) -> Result<u32, LockError> {
    locks
        .with_lock("import", async {
            reentry::held("import").map_or(0, |held| held.depth())
        })
        .await
}
