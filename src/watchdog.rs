//! The task that renews the lease of one hold until the hold ends or is lost (P4), and brings the
//! depth in the store after entries and exits that did not wait for it.

use std::{sync::Arc, time::Duration};

use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    depth::Depth,
    error::LostReason,
    id::HoldId,
    key::LockKey,
    lease::Lease,
    releaser::pauses,
    report,
    store::{Presence, Store},
};

/// What a watchdog guards.
pub(crate) struct Watchdog {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) lease: Arc<Lease>,
    pub(crate) depth: Arc<Depth>,
    pub(crate) response_timeout: Duration,
    /// From before the watchdog's first turn, so that no outage falls in between.
    pub(crate) outages: watch::Receiver<u64>,
}

impl Watchdog {
    /// Runs until the lock is lost; the end of the hold aborts it.
    pub(crate) async fn run(mut self) {
        let depth = Arc::clone(&self.depth);
        let reason = select! {
            reason = self.keep() => reason,
            reason = depth.follow() => reason,
        };
        self.lease.lose(reason);
    }

    async fn keep(&mut self) -> LostReason {
        loop {
            // Without a renewal due there is only the end of the lease to wait for.
            let due = self
                .lease
                .renewal_due()
                .unwrap_or_else(|| self.lease.deadline());
            select! {
                () = sleep_until(due) => {}
                // The server may have lost the lock together with the connection: ask at once. A
                // store that is being dropped has no more outages to tell of.
                Ok(()) = self.outages.changed() => {}
            }
            if let Err(reason) = self.renew().await {
                return reason;
            }
        }
    }

    /// Asks until the store has answered or the lease has ended. An error is no answer: the old
    /// deadline stands.
    async fn renew(&self) -> Result<(), LostReason> {
        let mut pauses = pauses();
        loop {
            let sent = Instant::now();
            if let Some(reason) = self.lease.lost_by(sent) {
                return Err(reason);
            }
            let ttl = self.lease.ttl();
            // Several attempts fit into what is left of the lease. A renewal that was cut short
            // may still arrive: it can only lengthen the lease of a hold that is there.
            let patience = self.response_timeout.min(ttl / 6);
            let request = self.store.renew(&self.key, self.hold, ttl, patience);
            let error = match timeout_at(self.lease.deadline(), request).await {
                Ok(Ok(Presence::Present)) => {
                    self.lease.confirm(sent, ttl);
                    report::renewed(&self.key, self.hold);
                    return Ok(());
                }
                Ok(Ok(Presence::Gone)) => return Err(LostReason::Gone),
                Ok(Err(error)) => Some(error),
                Err(_elapsed) => None,
            };
            report::renewal_retried(&self.key, self.hold, error.as_ref());
            let pause = Instant::now() + pauses.next().unwrap_or_default();
            sleep_until(pause.min(self.lease.deadline())).await;
        }
    }
}
