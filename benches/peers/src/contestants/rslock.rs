//! The crate rslock: Redlock, here on one server.
//!
//! Its guard renews nothing. Only its `using` renews, which runs a closure. Attempts are 0 to 200 ms apart by default,
//! and after every third one `acquire` starts again without a pause. A failed attempt also sends an unlock.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use rslock::{LockGuard, LockManager};

use crate::contestant::{Contestant, Held};
use crate::settings::Settings;

// It has no default.
const TTL: Duration = Duration::from_secs(30);

/// A `LockManager`.
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(url: &str, settings: Settings) -> Self {
        let mut manager = LockManager::new(vec![url]);
        if settings == Settings::Tuned {
            manager.set_retry(u32::MAX, Duration::from_millis(10));
        }
        Self(manager)
    }
}

#[async_trait]
impl Contestant for Rslock {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        Ok(Box::new(self.0.acquire(key.as_bytes(), TTL).await?))
    }
}

#[async_trait]
impl Held for LockGuard {
    async fn release(self: Box<Self>) -> Result<()> {
        LockGuard::release(*self).await;
        Ok(())
    }
}
