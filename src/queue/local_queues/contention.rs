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
            let signal = self
                .keys
                .lock()
                .get(key)
                .map(|watch| Arc::clone(&watch.signal));
            // It calls wakers, so the mutex is no longer locked.
            signal.iter().for_each(|signal| signal.notify_waiters());
        }
    }
}

/// One holder that wants to know, until it is dropped.
pub(crate) struct ContentionWatch<'a> {
    watches: &'a ContentionWatches,
    key: &'a LockKey,
    pub(crate) signal: Arc<Notify>,
}

impl<'a> ContentionWatch<'a> {
    pub(crate) fn begin(watches: &'a ContentionWatches, key: &'a LockKey) -> Self {
        // This comes before the local queue is checked: a later step sees the count.
        watches.count.fetch_add(1, Relaxed);
        let mut keys = watches.keys.lock();
        let watch = keys.entry(key.clone()).or_default();
        watch.holders += 1;
        let signal = Arc::clone(&watch.signal);
        Self {
            watches,
            key,
            signal,
        }
    }
}

impl Drop for ContentionWatch<'_> {
    fn drop(&mut self) {
        let mut keys = self.watches.keys.lock();
        if let Some(watch) = keys.get_mut(self.key) {
            watch.holders -= 1;
            if watch.holders == 0 {
                keys.remove(self.key);
            }
        }
        self.watches.count.fetch_sub(1, Relaxed);
    }
}
