//! This project, called as its users call it.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use reentry::{LockGuard, Locks, LocksBuilder};

use crate::contestant::{Contestant, Held};

/// A `Locks`.
pub(crate) struct Reentry(Locks);

impl Reentry {
    pub(crate) async fn build(builder: LocksBuilder) -> Result<Self> {
        Ok(Self(builder.build().await?))
    }
}

#[async_trait]
impl Contestant for Reentry {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        Ok(Box::new(
            self.0.lock(key).wait(Duration::MAX).acquire().await?,
        ))
    }

    async fn section(&self, key: &str) -> Result<()> {
        Ok(self.0.with_lock(key, async {}).await?)
    }
}

#[async_trait]
impl Held for LockGuard {
    async fn release(self: Box<Self>) -> Result<()> {
        Ok(LockGuard::release(*self).await?)
    }
}
