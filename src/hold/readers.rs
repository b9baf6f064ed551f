//! The readers of each key, so that one request renews all of them.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::hold::hold::Hold;

/// The readers of one runtime that are no part of an acquisition of several keys.
#[derive(Debug, Default)]
pub(super) struct Readers {
    of: HashMap<LockKey, Vec<Arc<Hold>>, RandomState>,
}

impl Readers {
    /// A hold has come into the schedule.
    pub(super) fn push(&mut self, hold: &Arc<Hold>) {
        if hold.mode() == Mode::Shared && hold.group().is_none() {
            let readers = self.of.entry(hold.key().clone()).or_default();
            readers.push(Arc::clone(hold));
        }
    }

    /// A hold has ended. One that was downgraded is not here.
    pub(super) fn remove(&mut self, hold: &Arc<Hold>) {
        if hold.mode() == Mode::Exclusive {
            return;
        }
        if let Some(readers) = self.of.get_mut(hold.key()) {
            readers.retain(|other| !Arc::ptr_eq(other, hold));
            if readers.is_empty() {
                self.of.remove(hold.key());
            }
        }
    }

    /// The readers of its key with its TTL.
    pub(super) fn like(&self, hold: &Arc<Hold>) -> Vec<Arc<Hold>> {
        let readers = self.of.get(hold.key()).into_iter().flatten();
        readers
            .filter(|other| other.ttl() == hold.ttl())
            .cloned()
            .collect()
    }
}
