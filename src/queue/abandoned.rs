//! The locks whose release was given up: they are held until their leases end.

use tokio::time::Instant;

use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// The names of their keys, and when their leases have ended for certain.
#[derive(Debug, Default)]
pub(super) struct Abandoned(Mutex<Vec<(String, Instant)>>);

impl Abandoned {
    pub(super) fn add(&self, key: &LockKey, until: Instant) {
        let now = Instant::now();
        let mut locks = self.0.lock();
        locks.retain(|(_, until)| now < *until);
        if now < until {
            locks.push((key.name().to_owned(), until));
        }
    }

    /// The names of those that may still be held, each once and in order.
    pub(super) fn names(&self) -> Vec<String> {
        let now = Instant::now();
        let locks = self.0.lock();
        let held = locks.iter().filter(|(_, until)| now < *until);
        let mut names: Vec<_> = held.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
