//! A lock that was won and not yet entered.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

use super::{Inheritance, Queue, Release};
use crate::{id::HoldId, key::LockKey, lease, releaser::Handover, report, store::Tokens};

/// What is known of a lock that was won. Releases it when dropped, unless it was entered.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) queue: Arc<Queue>,
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) tokens: Tokens,
    /// From when on its lease counts.
    pub(crate) sent: Instant,
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    /// Whether some attempt at it was never answered.
    pub(crate) unanswered: bool,
    pub(crate) runtime: Handle,
    /// The hold that goes on, where it was handed over in memory.
    pub(crate) inherited: Option<Inheritance>,
    /// Whether somebody has taken over the duty to release.
    pub(super) entered: bool,
}

impl Grant {
    /// Whether its lease goes on. It may have ended while nobody polled the one who waited for it.
    pub(crate) fn is_live(&self) -> bool {
        match &self.inherited {
            Some(inherited) => inherited.depth.lease().is_open(),
            None => Instant::now() < lease::deadline(self.sent, self.lease),
        }
    }

    /// The caller takes over the duty to release.
    pub(crate) fn enter(mut self) {
        self.entered = true;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.entered {
            return;
        }
        report::acquire_undone(&self.key, self.hold);
        let mut release = Release {
            key: self.key.clone(),
            hold: self.hold,
            tombstone: self.unanswered,
            deadline: lease::deadline(self.sent, self.lease),
            ttl: self.ttl,
            runtime: self.runtime.id(),
        };
        if let Some(inherited) = &self.inherited {
            // Nobody's depth any more: no change of it is sent.
            inherited.depth.rise();
            (release.deadline, release.ttl) = inherited.end();
        }
        let releasing = self.queue.release(release);
        drop(Handover::new(&self.runtime, releasing));
    }
}
