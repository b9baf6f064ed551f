//! What every lock in the comparison has to offer: the one interface that the measures know.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

/// A lock implementation with a connection of its own.
#[async_trait]
pub(crate) trait Contestant: Send + Sync {
    /// Waits for the lock as long as it takes.
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>>;

    /// An empty section: lock and unlock.
    async fn section(&self, key: &str) -> Result<()> {
        self.acquire(key).await?.release().await
    }
}

/// A lock that is held.
#[async_trait]
pub(crate) trait Held: Send {
    /// Gives the lock back and waits for the server's answer.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// A contestant that many tasks use.
pub(crate) type Shared = Arc<dyn Contestant>;
