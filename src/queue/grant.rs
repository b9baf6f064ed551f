//! A lock that was won and not yet entered.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

use super::{Queue, Release, Turn};
use crate::{
    base::{background::Handover, deadline::deadline, events, id::HoldId, key::LockKey},
    store::Tokens,
};

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
    /// The hold that goes on, where it was handed on in memory.
    pub(crate) turn: Option<Arc<dyn Turn>>,
    /// Whether somebody has taken over the duty to release.
    pub(super) entered: bool,
}

impl Grant {
    /// Whether its lease goes on. It may have ended while nobody polled the one who waited for it.
    pub(crate) fn is_live(&self) -> bool {
        match &self.turn {
            Some(turn) => turn.is_open(),
            None => Instant::now() < deadline(self.sent, self.lease),
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
        events::acquire_undone(&self.key, self.hold);
        let mut release = Release {
            key: self.key.clone(),
            hold: self.hold,
            tombstone: self.unanswered,
            deadline: deadline(self.sent, self.lease),
            ttl: self.ttl,
            runtime: self.runtime.id(),
        };
        if let Some(turn) = &self.turn {
            (release.deadline, release.ttl) = turn.give_up();
        }
        let releasing = self.queue.release(release);
        drop(Handover::new(&self.runtime, releasing));
    }
}
