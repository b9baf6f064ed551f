//! How operators look at the locks in memory.

use super::MemoryStore;
use crate::{
    base::key::LockKey,
    store::{
        Answer,
        survey::{Glance, QueuePage, Queued, Scan, Scanned, Survey},
    },
};

impl Survey for MemoryStore {
    fn scan(&self, scan: Scan) -> Answer<Scanned> {
        self.execute(move |state, now| state.scan(&scan, now))
    }

    fn glance(&self, key: &LockKey) -> Answer<Option<Glance>> {
        let key = key.clone();
        self.execute(move |state, now| state.glance(&key, now))
    }

    fn queue(&self, key: &LockKey, page: QueuePage) -> Answer<Queued> {
        let key = key.clone();
        self.execute(move |state, now| state.queue(&key, page, now))
    }
}
