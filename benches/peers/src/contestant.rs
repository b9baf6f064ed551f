//! The interface that every lock in the comparison must provide for the measures.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

/// A lock implementation with its own connection.
#[async_trait]
pub(crate) trait Contestant: Send + Sync {
    /// Waits for the lock without a time limit.
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>>;

    /// An empty section: lock and unlock.
    async fn section(&self, key: &str) -> Result<()> {
        self.acquire(key).await?.release().await
    }
}

/// A lock that is held.
#[async_trait]
pub(crate) trait Held: Send {
    /// Releases the lock, and waits for the response of the server.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// A contestant that many tasks use.
pub(crate) type Shared = Arc<dyn Contestant>;
