//! The queue of one lock: the readers inside, the processes that wait, in their order, the tombstones, and the last
//! depth changes. In Redis these are two keys, each with an expiry of its own.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::{HoldId, InboxId};
use crate::store::redis::codec::{QueueEntry, SEQ_LIFE, TOMBSTONE_LIFE};

#[derive(Debug, Default)]
pub(crate) struct StoredQueue {
    /// The content of the zset: the readers inside with the ends of their leases, the processes that wait in their order,
    /// and the tombstones with their ends.
    readers: Vec<(HoldId, Instant)>,
    places: Vec<InboxId>,
    tombstones: HashMap<HoldId, Instant>,
    queue_ends: Option<Instant>,
    /// The content of the hash: the entries, and the numbers of the last depth changes.
    entries: HashMap<InboxId, WaitingProcess>,
    seqs: HashMap<HoldId, u64>,
    entries_end: Option<Instant>,
}

/// The entry of one process.
#[derive(Clone, Debug)]
pub(crate) struct WaitingProcess {
    pub(crate) inbox: InboxId,
    /// The first waiter of the process, or the readers that are first.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) mode: WaitMode,
    /// The lease of a lock that moves to the process.
    pub(crate) grant: Duration,
    /// The time until which the process counts as alive.
    pub(crate) deadline: Instant,
}

/// The request of a process that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitMode {
    /// The exclusive lock. After the process has it, it gets a message when another process begins to wait.
    Exclusive,
    /// A share of the lock, with at most this number of holders.
    Shared { limit: Option<u32> },
}

impl StoredQueue {
    /// Forgets what has expired. A key disappears with its last member, or when it expires.
    pub(crate) fn prune(&mut self, now: Instant) {
        // In Redis an expiry takes the whole key.
        let is_over = |ends: Option<Instant>| ends.is_some_and(|ends| ends <= now);
        if is_over(self.queue_ends) {
            self.readers.clear();
            self.places.clear();
            self.tombstones.clear();
        }
        if is_over(self.entries_end) {
            self.entries.clear();
            self.seqs.clear();
        }
        // In Redis a key without members does not exist, and the next one has an expiry of its own.
        if self.readers.is_empty() && self.places.is_empty() && self.tombstones.is_empty() {
            self.queue_ends = None;
        }
        if self.entries.is_empty() && self.seqs.is_empty() {
            self.entries_end = None;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue_ends.is_none() && self.entries_end.is_none()
    }

    pub(crate) fn waiting(&self, now: Instant) -> u64 {
        let entries = self.entries.values();
        entries.filter(|process| now < process.deadline).count() as u64
    }

    /// Returns the first live process. Dead processes before it are removed.
    pub(crate) fn first(&mut self, now: Instant) -> Option<WaitingProcess> {
        while let Some(&inbox) = self.places.first() {
            let process = self.entries.get(&inbox);
            if let Some(process) = process.filter(|process| now < process.deadline) {
                return Some(process.clone());
            }
            // The process has died, or its entry has expired before its place.
            self.leave(inbox);
        }
        None
    }

    pub(crate) fn leave(&mut self, inbox: InboxId) {
        self.places.retain(|place| *place != inbox);
        self.entries.remove(&inbox);
    }

    /// Removes a hold from the place of its process, which ends with its last hold.
    pub(crate) fn stop_waiting(&mut self, inbox: InboxId, hold: HoldId) {
        if let Some(process) = self.entries.get_mut(&inbox)
            && process.holds.contains(&hold)
        {
            process.holds.retain(|other| *other != hold);
            if process.holds.is_empty() {
                self.leave(inbox);
            }
        // A place whose entry has expired would stay as long as the key, for example as long as a tombstone.
        } else if !self.entries.contains_key(&inbox) {
            self.leave(inbox);
        }
    }

    // ---- the readers inside ----

    /// The reader whose lease expires last.
    pub(crate) fn latest_reader(&self) -> Option<(HoldId, Instant)> {
        // The order of owners is that of their names. Comparing the names would cost more.
        let readers = self.readers.iter().copied();
        // Of equal ends the least member counts, as in the zset.
        readers.max_by(|(hold, lasts), (other, its)| {
            let number = |hold: &HoldId| hold.number().to_string();
            let is_before = || other.owner().cmp(&hold.owner());
            let by_number = || number(other).cmp(&number(hold));
            lasts.cmp(its).then_with(is_before).then_with(by_number)
        })
    }

    pub(crate) fn take_expired_readers(&mut self, now: Instant) -> Vec<HoldId> {
        let dead = self.readers.extract_if(.., |(_, lasts)| *lasts < now);
        let dead: Vec<_> = dead.map(|(hold, _)| hold).collect();
        // The number of the last change goes with its hold.
        for hold in &dead {
            self.seqs.remove(hold);
        }
        dead
    }

    /// Makes the lease of a reader last until `lasts` at least.
    pub(crate) fn renew_reader(&mut self, hold: HoldId, lasts: Instant) {
        match self.readers.iter_mut().find(|(other, _)| *other == hold) {
            // A renewal that arrives late must not shorten a lease.
            Some((_, end)) => *end = lasts.max(*end),
            None => self.readers.push((hold, lasts)),
        }
        self.queue_ends = self.queue_ends.max(Some(lasts));
    }

    pub(crate) fn reader(&self, hold: HoldId) -> Option<Instant> {
        let reader = self.readers.iter().find(|(other, _)| *other == hold);
        reader.map(|(_, lasts)| *lasts)
    }

    pub(crate) fn forget_reader(&mut self, hold: HoldId) {
        self.readers.retain(|(other, _)| *other != hold);
    }

    pub(crate) fn forget_readers(&mut self) {
        self.readers.clear();
    }

    // ---- the places ----

    pub(crate) fn is_occupied(&self) -> bool {
        self.queue_ends.is_some()
    }

    /// Enters the queue at its end, or keeps the place that the process has there. Returns true if the place is new and
    /// no process except the holder's was in the queue.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        holds: Vec<HoldId>,
        mode: WaitMode,
        entry: QueueEntry,
        holder: Option<InboxId>,
    ) -> bool {
        let QueueEntry {
            inbox, grant, life, ..
        } = entry;
        let is_new = !self.places.contains(&inbox);
        // The last process before this one shows whether another process than the holder's waits already.
        let last = self.places.last().copied();
        let is_first = is_new && (last.is_none() || last == holder);
        if is_new {
            self.places.push(inbox);
        }
        let deadline = now + life;
        let process = WaitingProcess {
            inbox,
            holds,
            mode,
            grant,
            deadline,
        };
        // The entry is replaced, because the first waiter of the process may be another one now.
        self.entries.insert(inbox, process);
        self.queue_ends = self.queue_ends.max(Some(deadline));
        // Never earlier: the keys also have what others have left there.
        self.entries_end = self.entries_end.max(Some(deadline));
        is_first
    }

    /// Leaves a tombstone. Expired tombstones are removed.
    pub(crate) fn add_tombstone(&mut self, now: Instant, hold: HoldId) {
        self.tombstones.retain(|_, end| now <= *end);
        // The key may disappear with its last tombstone, and is created again.
        self.prune(now);
        let end = now + TOMBSTONE_LIFE;
        self.tombstones.insert(hold, end);
        self.queue_ends = self.queue_ends.max(Some(end));
    }

    pub(crate) fn has_tombstone(&self, hold: HoldId) -> bool {
        self.tombstones.contains_key(&hold)
    }

    /// Notes a depth change, unless a later one of this hold is known. Returns whether the change must be made.
    pub(crate) fn note_change(&mut self, now: Instant, hold: HoldId, seq: u64) -> bool {
        // A duplicate that arrives late must not undo a newer change.
        if self.seqs.get(&hold).is_some_and(|last| seq <= *last) {
            return false;
        }
        self.seqs.insert(hold, seq);
        // As in the script, which saves a command while more than half of the time is left.
        if self.entries_end.is_none_or(|end| end < now + SEQ_LIFE / 2) {
            self.entries_end = Some(now + SEQ_LIFE);
        }
        true
    }

    pub(crate) fn forget_changes(&mut self, hold: HoldId) {
        self.seqs.remove(&hold);
    }
}
