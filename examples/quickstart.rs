//! The shortest example: a handler and its helper both hold `order:42`.
//!
//! `cargo run --example quickstart`, or with `REDIS_URL=redis://127.0.0.1:6379` on a server.

use reentry::{LockError, Locks};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::connect(url).await?;

    locks
        .with_lock("order:42", async { ship(&locks).await })
        .await??;
    Ok(())
}

/// Can be called with or without the lock. It holds the lock in both cases.
async fn ship(locks: &Locks) -> Result<(), LockError> {
    locks
        .with_lock("order:42", async {
            if let Some(held) = reentry::current() {
                println!(
                    "shipping under token {} at depth {}",
                    held.fencing_token(),
                    held.depth()
                );
            }
        })
        .await
}
