//! Holders that want to know whether others wait for their lock, which are callers of this process or other processes.
//!
//! A caller of this process is noticed as soon as it has to wait. The store is asked immediately, and again after
//! each heartbeat (`wanted.rs`). If waiters get messages, the store also notifies this process of the first other
//! process that begins to wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// The keys whose holders want to know whether others wait.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The number of holders that want to know. A step of a local queue reads it first.
    count: AtomicUsize,
    keys: Mutex<HashMap<LockKey, OfKey, RandomState>>,
}

/// The signal for the holders of one key, and the number of these holders.
#[derive(Debug, Default)]
struct OfKey {
    wakes: Arc<Notify>,
    holders: usize,
}

impl Watched {
    /// Returns whether no holder wants to know.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Notes that a caller or a process waits for this key, or may.
    pub(super) fn note(&self, key: &LockKey) {
        if !self.is_empty() {
            let wakes = self.keys.lock().get(key).map(|of| Arc::clone(&of.wakes));
            wakes.iter().for_each(|wakes| wakes.notify_waiters());
        }
    }
}

/// One holder that wants to know, until it is dropped.
pub(super) struct Watch<'a> {
    watched: &'a Watched,
    key: &'a LockKey,
    pub(super) wakes: Arc<Notify>,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(watched: &'a Watched, key: &'a LockKey) -> Self {
        // This comes before the local queue is checked: a later step sees the count.
        watched.count.fetch_add(1, Relaxed);
        let mut keys = watched.keys.lock();
        let of = keys.entry(key.clone()).or_default();
        of.holders += 1;
        let wakes = Arc::clone(&of.wakes);
        Self {
            watched,
            key,
            wakes,
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut keys = self.watched.keys.lock();
        if let Some(of) = keys.get_mut(self.key) {
            of.holders -= 1;
            if of.holders == 0 {
                keys.remove(self.key);
            }
        }
        self.watched.count.fetch_sub(1, Relaxed);
    }
}
