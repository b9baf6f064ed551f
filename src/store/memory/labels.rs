//! The labels of holds in memory.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use crate::base::id::HoldId;

/// The labels, each with the instant at which it expires.
#[derive(Debug, Default)]
pub(crate) struct StoredLabels(HashMap<HoldId, (Arc<str>, Instant), RandomState>);

impl StoredLabels {
    /// Forgets what has expired.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, (_, expires)| now < *expires);
    }

    pub(crate) fn set(&mut self, hold: HoldId, label: Arc<str>, expires: Instant) {
        self.0.insert(hold, (label, expires));
    }

    pub(crate) fn remove(&mut self, hold: HoldId) {
        self.0.remove(&hold);
    }

    pub(crate) fn get(&self, hold: HoldId, now: Instant) -> Option<&str> {
        let (label, expires) = self.0.get(&hold)?;
        (now < *expires).then_some(label)
    }
}
