//! A worker that waits for many locks.

use std::time::Duration;

use anyhow::Result;

use crate::contestant::Shared;

/// Starts one waiting task for each key, and gives the tasks time to reach the server.
pub(super) async fn wait_for(lock: &Shared, keys: Vec<String>) -> Result<()> {
    for key in keys {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire(&key).await?.release().await });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}
