//! The task that updates the store to the wanted depth of a hold. No caller waits for it.

use std::sync::Arc;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::LostReason;
use crate::base::events;
use crate::base::timer::sleep;
use crate::hold::hold::Hold;
use crate::queue::LocalQueues;
use crate::store::{DepthChange, Presence, SetDepth};

/// A hold has at most one of them, and it ends when there is nothing left to do.
pub(super) struct DepthMirror {
    hold: Arc<Hold>,
    queues: Arc<LocalQueues>,
    has_ended: bool,
}

impl DepthMirror {
    /// `None` if the store has the wanted depth, or another one is updating it.
    pub(super) fn of(hold: &Arc<Hold>, queues: &Arc<LocalQueues>) -> Option<Self> {
        let begins = hold.change(|state| state.depth.begin_to_mirror());
        begins.then(|| Self {
            hold: Arc::clone(hold),
            queues: Arc::clone(queues),
            has_ended: false,
        })
    }

    /// Sends one change at a time. The changes that are wanted while one is in flight are combined into the next.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        while let Some(change) = self.next() {
            let Self { hold, queues, .. } = &self;
            let sent = Instant::now();
            let key = hold.key().clone();
            match queues.store().ask(SetDepth { key, change }).await {
                Ok(Presence::Present) => confirm(hold, change, sent),
                // The release of the last to leave has overtaken this change.
                Ok(Presence::Gone) if hold.depth() == 0 => return,
                Ok(Presence::Gone) => {
                    hold.lose(LostReason::Deleted);
                    return queues.lost(hold.key(), hold.id());
                }
                Err(error) if error.effect().is_rejected() => {
                    return events::depth_rejected(hold.key(), hold.id(), &error);
                }
                Err(error) => {
                    events::depth_retried(hold.key(), hold.id(), &error);
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    fn next(&mut self) -> Option<DepthChange> {
        let next = self.hold.change(|state| {
            let ttl = state.lease.ttl();
            let is_lost = state.lease.lost_by(Instant::now()).is_some();
            let next = || state.depth.next(self.hold.id(), self.hold.mode(), ttl);
            (!is_lost).then(next).flatten()
        });
        self.has_ended = next.is_none();
        next
    }
}

fn confirm(hold: &Hold, change: DepthChange, sent: Instant) {
    hold.change(|state| {
        // If replicas must have it, the next renewal lengthens the lease.
        if change.lengthen && hold.confirm.is_none() {
            state.lease.confirm(sent, change.ttl, Instant::now());
        }
        state.depth.confirm(change, state.lease.ttl());
    });
}

/// The task may end with its runtime.
impl Drop for DepthMirror {
    fn drop(&mut self) {
        if !self.has_ended {
            self.hold.change(|state| state.depth.stop_to_mirror());
        }
    }
}
