//! The task that renews the lease of one hold until the hold ends or is lost (P4), and brings the
//! depth in the store after entries and exits that did not wait for it.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::watch, time::Instant};

use crate::{
    base::{backoff::pauses, error::LostReason, events, timer::sleep_until},
    hold::depth::Depth,
    queue::LocalQueues,
    store::{Presence, Renewal},
};

/// How soon after an attempt without an answer the next one follows, at the least.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// What a watchdog guards.
pub(crate) struct Watchdog {
    pub(crate) queues: Arc<LocalQueues>,
    pub(crate) depth: Arc<Depth>,
    pub(crate) response_timeout: Duration,
    /// Made before the request that won the lock, so that no disconnect goes unseen.
    pub(crate) disconnects: watch::Receiver<u64>,
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
            self.queues.lost(lease.key(), lease.hold());
        }
    }

    async fn keep(&mut self) -> LostReason {
        loop {
            // Without a renewal due there is only the end of the lease to wait for.
            let lease = self.depth.lease();
            let due = lease.renewal_due().unwrap_or_else(|| lease.deadline());
            select! {
                biased;
                () = sleep_until(due) => {}
                // The server may have lost the lock together with the connection: ask at once. A
                // store that is being dropped has no more disconnects to tell of.
                Ok(()) = self.disconnects.changed() => {}
            }
            // Boxed, since it is rarely there: the watchdog of an idle hold is small.
            if let Err(reason) = Box::pin(self.renew()).await {
                return reason;
            }
        }
    }

    /// Asks until the store has answered or the lease has ended. An error is no answer: the old
    /// deadline stands.
    ///
    /// An attempt that has no answer yet is not given up, since the store may only be far away: the next
    /// one is sent beside it, and the first answer counts. A renewal that arrives late can only lengthen
    /// the lease of a hold that is there.
    async fn renew(&self) -> Result<(), LostReason> {
        let lease = self.depth.lease();
        let (key, hold, store) = (lease.key(), lease.hold(), self.queues.store());
        let mut pauses = pauses();
        let mut attempts = FuturesUnordered::new();
        // Since when an attempt is without an answer.
        let mut silent = None;
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if let Some(reason) = lease.lost_by(now) {
                return Err(reason);
            }
            if next <= now {
                if let Some(since) = silent {
                    events::renewal_retried(key, hold, None);
                    store.suspect(since);
                }
                silent = silent.or(Some(now));
                let ttl = lease.ttl();
                let request = store.renew(key, Renewal { hold, ttl });
                attempts.push(async move { (now, ttl, request.await) });
                next = now + self.patience(now);
            }
            let (sent, ttl, answer) = select! {
                biased;
                Some(answered) = attempts.next() => answered,
                () = sleep_until(next.min(lease.deadline())) => continue,
            };
            match answer {
                Ok(Presence::Present) => {
                    lease.confirm(sent, ttl);
                    events::renewed(key, hold);
                    return Ok(());
                }
                Ok(Presence::Gone) => return Err(LostReason::Gone),
                Err(error) => events::renewal_retried(key, hold, Some(&error)),
            }
            silent = None;
            if attempts.is_empty() {
                let now = Instant::now();
                let pause = pauses.next().unwrap_or_default();
                next = now + pause.min(self.patience(now));
            }
        }
    }

    /// How long to wait for an answer before the next attempt. Two more fit into what is left of the
    /// lease.
    fn patience(&self, now: Instant) -> Duration {
        let left = self.depth.lease().deadline() - now;
        self.response_timeout.min(left / 3).max(LEAST_PATIENCE)
    }
}
