//! The readers of each key, so that one request renews all of them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use crate::{
    base::{error::LostReason, events, key::LockKey, mode::Mode, timer::timeout_at},
    hold::{hold::Hold, renewal::patience},
    store::{Keeping, Store},
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

    /// The other readers of its key with its TTL.
    pub(super) fn beside(&self, hold: &Arc<Hold>) -> Vec<Arc<Hold>> {
        let readers = self.of.get(hold.key()).into_iter().flatten();
        let is_like_it =
            |other: &&Arc<Hold>| !Arc::ptr_eq(other, hold) && other.ttl() == hold.ttl();
        readers.filter(is_like_it).take(MOST - 1).cloned().collect()
    }
}

/// Renews readers of one key by one request. Returns those for which it has no answer in time, or an error: each of them
/// is renewed by itself then.
pub(super) async fn keep_together(
    holds: Vec<Arc<Hold>>,
    store: &Arc<dyn Store>,
    response_timeout: Duration,
    disconnects: u64,
) -> Vec<Arc<Hold>> {
    let Some(first) = holds.first() else {
        return holds;
    };
    let (sent, ttl) = (Instant::now(), first.ttl());
    let deadline = holds.iter().map(|hold| hold.deadline()).min();
    let patience = patience(response_timeout, deadline.unwrap_or(sent), sent);
    let keeping = Keeping {
        holds: holds.iter().map(|hold| hold.id()).collect(),
        ttl,
    };
    let kept = timeout_at(sent + patience, store.keep(first.key(), keeping)).await;
    let gone = match kept {
        Ok(Ok(gone)) => gone,
        Ok(Err(error)) => {
            events::renewal_retried(first.key(), first.id(), Some(&error));
            return holds;
        }
        Err(_elapsed) => return holds,
    };
    for hold in &holds {
        if !gone.contains(&hold.id()) {
            hold.confirm(sent, ttl, disconnects);
            events::renewed(hold.key(), hold.id());
        } else if hold.depth() > 0 {
            hold.lose(LostReason::Gone);
        }
    }
    Vec::new()
}
