//! The holders that want to know whether others wait for their lock, which are callers of this process or other
//! processes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// The keys whose holders want to know whether others wait.
#[derive(Default)]
pub(crate) struct ContentionWatches {
    /// The number of holders that want to know. A step of a local queue reads it first.
    count: AtomicUsize,
    keys: Mutex<HashMap<LockKey, KeyWatch, RandomState>>,
}

/// The signal for the holders of one key, and the number of these holders.
#[derive(Default)]
struct KeyWatch {
    signal: Arc<Notify>,
    holders: usize,
}

impl ContentionWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Notes that a caller or a process waits for this key, or may.
    pub(super) fn notify(&self, key: &LockKey) {
        if !self.is_empty() {
            let keys = self.keys.lock();
            let signal = keys.get(key).map(|watch| Arc::clone(&watch.signal));
            // It calls wakers, so the mutex is no longer locked.
            drop(keys);
            signal.iter().for_each(|signal| signal.notify_waiters());
        }
    }

    /// Adds a holder that wants to know, until [`end`](Self::end). Returns its signal.
    pub(crate) fn begin(&self, key: &LockKey) -> Arc<Notify> {
        // This comes before the local queue is checked: a later step sees the count.
        self.count.fetch_add(1, Relaxed);
        let mut keys = self.keys.lock();
        let watch = keys.entry(key.clone()).or_default();
        watch.holders += 1;
        Arc::clone(&watch.signal)
    }

    pub(crate) fn end(&self, key: &LockKey) {
        let mut keys = self.keys.lock();
        if let Some(watch) = keys.get_mut(key) {
            watch.holders -= 1;
            if watch.holders == 0 {
                keys.remove(key);
            }
        }
        self.count.fetch_sub(1, Relaxed);
    }
}
