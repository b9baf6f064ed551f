//! The task that renews the lease of one hold until the hold ends or is lost (P4), and brings the
//! depth in the store after entries and exits that did not wait for it.

use std::{sync::Arc, time::Duration};

use tokio::{select, sync::watch, time::Instant};

use crate::{
    depth::Depth,
    error::LostReason,
    queue::Queue,
    releaser::pauses,
    report,
    store::{Presence, Renewal, meta_life},
    timer::{sleep_until, timeout_at},
};

/// What a watchdog guards.
pub(crate) struct Watchdog {
    pub(crate) queue: Arc<Queue>,
    pub(crate) depth: Arc<Depth>,
    pub(crate) response_timeout: Duration,
    /// From before the watchdog's first turn, so that no outage falls in between.
    pub(crate) outages: watch::Receiver<u64>,
}

impl Watchdog {
    /// Runs until the lock is lost; the end of the hold aborts it.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would keep its argument twice"
    )]
    pub(crate) fn run(mut self) -> impl Future<Output = ()> + Send {
        async move {
            let depth = Arc::clone(&self.depth);
            let reason = select! {
                biased;
                reason = self.keep() => reason,
                reason = depth.follow() => reason,
            };
            let lease = depth.lease();
            lease.lose(reason);
            self.queue.lost(lease.key(), lease.hold());
        }
    }

    async fn keep(&mut self) -> LostReason {
        let mut meta_kept = Instant::now();
        loop {
            // Without a renewal due there is only the end of the lease to wait for.
            let lease = self.depth.lease();
            let due = lease.renewal_due().unwrap_or_else(|| lease.deadline());
            select! {
                biased;
                () = sleep_until(due) => {}
                // The server may have lost the lock together with the connection: ask at once. A
                // store that is being dropped has no more outages to tell of.
                Ok(()) = self.outages.changed() => {}
            }
            // An heir that nobody polls is passed over when the lease ends.
            while lease.is_unclaimed() && lease.lost_by(Instant::now()).is_none() {
                let pause = Instant::now() + lease.ttl() / 12;
                sleep_until(pause.min(lease.deadline())).await;
            }
            // Boxed, since it is rarely there: the watchdog of an idle hold is small.
            if let Err(reason) = Box::pin(self.renew(&mut meta_kept)).await {
                return reason;
            }
        }
    }

    /// Asks until the store has answered or the lease has ended. An error is no answer: the old
    /// deadline stands. The meta is kept along where its last time is some while ago.
    async fn renew(&self, meta_kept: &mut Instant) -> Result<(), LostReason> {
        let lease = self.depth.lease();
        let (key, hold) = (lease.key(), lease.hold());
        let mut pauses = pauses();
        loop {
            let sent = Instant::now();
            if let Some(reason) = lease.lost_by(sent) {
                return Err(reason);
            }
            let ttl = lease.ttl();
            // Several attempts fit into what is left of the lease. A renewal that was cut short
            // may still arrive: it can only lengthen the lease of a hold that is there.
            let renewal = Renewal {
                hold,
                ttl,
                keep_meta: sent - *meta_kept > meta_life(ttl) / 4,
                patience: self.response_timeout.min(ttl / 6),
            };
            let request = self.queue.store().renew(key, renewal);
            let error = match timeout_at(lease.deadline(), request).await {
                Ok(Ok(Presence::Present)) => {
                    lease.confirm(sent, ttl);
                    if renewal.keep_meta {
                        *meta_kept = sent;
                    }
                    report::renewed(key, hold);
                    return Ok(());
                }
                Ok(Ok(Presence::Gone)) => return Err(LostReason::Gone),
                Ok(Err(error)) => Some(error),
                Err(_elapsed) => None,
            };
            report::renewal_retried(key, hold, error.as_ref());
            let pause = Instant::now() + pauses.next().unwrap_or_default();
            sleep_until(pause.min(lease.deadline())).await;
        }
    }
}
