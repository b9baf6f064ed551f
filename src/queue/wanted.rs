//! The wait of a holder until another caller wants its lock.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::LocalQueues;
use super::contention::Watch;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::timer::timeout;
use crate::store::Inspect;

impl LocalQueues {
    /// Resolves when another caller or process waits for the lock of this hold. If the hold is gone, it never resolves.
    pub(crate) async fn until_wanted(&self, key: &LockKey, hold: HoldId, heartbeat: Duration) {
        let watch = Watch::begin(&self.watched, key);
        loop {
            let mut noted = pin!(watch.wakes.notified());
            // From here on no wake-up is missed.
            noted.as_mut().enable();
            if self.is_wanted(key) {
                return;
            }
            // The process of the holder gets a message when another one begins to wait.
            self.listen();
            let asked = self.store().ask(Inspect::of(key));
            if let Ok(Ok(seen)) = timeout(heartbeat, asked).await {
                match seen.filter(|seen| seen.has(hold)) {
                    Some(seen) if seen.waiting > 0 => return,
                    Some(_) => {}
                    None => pending().await,
                }
            }
            // Without a response, the request is repeated after a heartbeat.
            let _ = timeout(heartbeat, noted).await;
        }
    }

    fn is_wanted(&self, key: &LockKey) -> bool {
        let lines = self.lines.lock();
        let slot = lines.of.get(key);
        slot.is_some_and(|slot| slot.is_wanted(Instant::now()))
    }

    /// Wakes the holders that want to know whether a caller of this process waits, if one does.
    pub(super) fn note_wanted(&self, key: &LockKey) {
        if !self.watched.is_empty() && self.is_wanted(key) {
            self.watched.note(key);
        }
    }
}
