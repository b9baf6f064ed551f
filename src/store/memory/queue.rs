//! The processes that wait for one lock, in their order: the queue and its entries in Redis.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    base::id::{HoldId, InboxId},
    store::{QueueEntry, meta_life},
};

#[derive(Debug, Default)]
pub(super) struct Queue {
    processes: Vec<Process>,
    /// The latest of all deadlines that there were in it: when its keys expire in Redis.
    expires: Option<Instant>,
}

/// One process: its entry in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) inbox: InboxId,
    /// The first waiter of the process.
    pub(super) hold: HoldId,
    /// The lease of a lock that moves to it.
    pub(super) grant: Duration,
    pub(super) meta_life: Duration,
    /// Until when the process counts as alive.
    deadline: Instant,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Whether it has expired, and with it the order of the dead processes in it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| expires <= now)
    }

    pub(super) fn waiting(&self, now: Instant) -> u64 {
        self.processes
            .iter()
            .filter(|process| now < process.deadline)
            .count() as u64
    }

    /// The first live process; dead ones are removed on the way.
    pub(super) fn head(&mut self, now: Instant) -> Option<Process> {
        let dead = self
            .processes
            .iter()
            .take_while(|process| process.deadline <= now)
            .count();
        drop(self.processes.drain(..dead));
        self.processes.first().copied()
    }

    pub(super) fn leave(&mut self, inbox: InboxId) {
        self.processes.retain(|process| process.inbox != inbox);
    }

    /// Whether it is for this hold that the process waits.
    pub(super) fn names(&self, inbox: InboxId, hold: HoldId) -> bool {
        self.processes
            .iter()
            .any(|process| process.inbox == inbox && process.hold == hold)
    }

    /// Enters the queue at its end, or keeps the place that the process has there.
    pub(super) fn stand(&mut self, now: Instant, hold: HoldId, ttl: Duration, entry: QueueEntry) {
        let QueueEntry { inbox, grant, life } = entry;
        let process = Process {
            inbox,
            hold,
            grant,
            meta_life: meta_life(ttl),
            deadline: now + life,
        };
        self.expires = self.expires.max(Some(process.deadline));
        match self
            .processes
            .iter_mut()
            .find(|process| process.inbox == inbox)
        {
            Some(present) => *present = process,
            None => self.processes.push(process),
        }
    }
}
