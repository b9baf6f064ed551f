//! The processes that wait for one lock, in their order: the queue and its entries in Redis.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    base::id::{HoldId, InboxId},
    store::{QueueEntry, meta_life},
};

#[derive(Debug, Default)]
pub(super) struct Line {
    entries: Vec<Entry>,
    /// The latest of all deadlines that there were in it: when its keys expire in Redis.
    expires: Option<Instant>,
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) inbox: InboxId,
    /// The first waiter of the process.
    pub(super) hold: HoldId,
    /// The lease of a lock that moves to it.
    pub(super) grant: Duration,
    pub(super) meta_life: Duration,
    pub(super) tokens: u32,
    /// Until when the process counts as alive.
    deadline: Instant,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it has expired, and with it the order of the dead processes in it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| expires <= now)
    }

    pub(super) fn waiting(&self, now: Instant) -> u64 {
        self.entries
            .iter()
            .filter(|entry| now < entry.deadline)
            .count() as u64
    }

    /// The first live process; dead ones are removed on the way.
    pub(super) fn head(&mut self, now: Instant) -> Option<Entry> {
        let dead = self
            .entries
            .iter()
            .take_while(|entry| entry.deadline <= now)
            .count();
        drop(self.entries.drain(..dead));
        self.entries.first().copied()
    }

    pub(super) fn leave(&mut self, inbox: InboxId) {
        self.entries.retain(|entry| entry.inbox != inbox);
    }

    /// Whether it is for this hold that the process waits.
    pub(super) fn names(&self, inbox: InboxId, hold: HoldId) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.inbox == inbox && entry.hold == hold)
    }

    /// Enters the line at its end, or keeps the place that the process has there.
    pub(super) fn stand(
        &mut self,
        now: Instant,
        hold: HoldId,
        ttl: Duration,
        tokens: u32,
        entry: QueueEntry,
    ) {
        let QueueEntry { inbox, grant, life } = entry;
        let entry = Entry {
            inbox,
            hold,
            grant,
            meta_life: meta_life(ttl),
            tokens,
            deadline: now + life,
        };
        self.expires = self.expires.max(Some(entry.deadline));
        match self.entries.iter_mut().find(|entry| entry.inbox == inbox) {
            Some(present) => *present = entry,
            None => self.entries.push(entry),
        }
    }
}
