//! A fair mutex of this process in front of the classic scripts: the lower bound for a queue that exists only in one
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;

use super::classic::{Classic, Hold};
use crate::contestant::{Contestant, Held};

/// A mutex for each key.
pub(crate) struct Queue {
    classic: Classic,
    keys: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Queue {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self {
            classic: Classic::connect(url).await?,
            keys: Mutex::default(),
        })
    }

    fn mutex(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(keys.entry(key.to_owned()).or_default())
    }
}

#[async_trait]
impl Contestant for Queue {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        let turn = self.mutex(key).lock_owned().await;
        let hold = self.classic.take(key).await?;
        Ok(Box::new(Turn { hold, turn }))
    }
}

struct Turn {
    hold: Hold,
    turn: OwnedMutexGuard<()>,
}

#[async_trait]
impl Held for Turn {
    async fn release(self: Box<Self>) -> Result<()> {
        let Turn { hold, turn } = *self;
        Box::new(hold).release().await?;
        drop(turn);
        Ok(())
    }
}
