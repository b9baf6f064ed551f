//! The wait of a holder until another caller wants its lock.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use super::LocalQueues;
use super::contention::Watch;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::timer::timeout;
use crate::store::{Contended, Contention};

impl LocalQueues {
    /// Resolves when another caller or process waits for the lock of this hold. If the hold is gone, it never resolves.
    pub(crate) async fn until_wanted(&self, key: &LockKey, hold: HoldId, heartbeat: Duration) {
        let watch = Watch::begin(&self.watched, key);
        loop {
            let mut noted = pin!(watch.wakes.notified());
            // From here on no wake-up is missed.
            noted.as_mut().enable();
            if self.len(key) > 0 {
                return;
            }
            let asked = self.store().ask(Contention {
                key: key.clone(),
                hold,
                inbox: self.requests.inbox(),
                tells: self.listen(),
            });
            match timeout(heartbeat, asked).await {
                Ok(Ok(Contended::Yes)) => return,
                Ok(Ok(Contended::Gone)) => pending().await,
                Ok(Ok(Contended::No) | Err(_)) | Err(_) => {}
            }
            // Without a response, the request is repeated after a heartbeat.
            let _ = timeout(heartbeat, noted).await;
        }
    }
}
