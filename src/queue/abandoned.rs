//! The releases that were rejected or given up.

use tokio::time::Instant;

use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// The locks whose release was given up, or is repeated although its caller was told that it was rejected. They are held
/// until their leases expire. Each is kept by the name of its key, with the instant at which its lease has certainly
/// expired.
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

    /// Forgets a lock that was added with this instant.
    pub(super) fn remove(&self, key: &LockKey, until: Instant) {
        let mut locks = self.0.lock();
        locks.retain(|(name, stands_until)| name != key.name() || *stands_until != until);
    }

    /// The names of the keys whose locks may still be held, each once and in order.
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
