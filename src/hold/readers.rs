//! The readers of each key, so that one request renews all of them.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use crate::{
    base::{key::LockKey, mode::Mode},
    hold::hold::Hold,
};

/// So many are renewed by one request at most: a script can name a few thousand.
const MOST: usize = 500;

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

    /// The other readers of its key with its TTL that satisfy `wanted`, as many as one request renews.
    pub(super) fn beside(
        &self,
        hold: &Arc<Hold>,
        wanted: impl FnMut(&&Arc<Hold>) -> bool,
    ) -> Vec<Arc<Hold>> {
        let readers = self.of.get(hold.key()).into_iter().flatten();
        let is_like_it = |other: &&Arc<Hold>| {
            !Arc::ptr_eq(other, hold) && other.ttl() == hold.ttl() && !other.is_covered()
        };
        let beside = readers.filter(is_like_it).filter(wanted);
        beside.take(MOST - 1).cloned().collect()
    }
}
