//! The state of the in-memory store, with its published waits and its clock, and the changes by the verbs.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::stored_queue::StoredQueue;
use crate::base::id::{HoldId, InboxId, OwnerId};
use crate::base::key::LockKey;
use crate::base::lease_times::StoreTime;
use crate::store::redis::codec::{ForcedMessage, HandoffMessage, ListedWait, TOMBSTONE_LIFE};

/// The maximum sum of all steps of the clock in either direction: ten years.
const MAX_CLOCK_STEPS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The kinds of keys that a lock has in Redis.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) locks: HashMap<LockKey, Lock, RandomState>,
    pub(super) queues: HashMap<LockKey, StoredQueue, RandomState>,
    pub(crate) waits: PublishedWaits,
    pub(crate) clock: Clock,
    next_sweep: Instant,
    /// The messages to send after the operation.
    pub(super) messages: Vec<AddressedMessage>,
}

#[derive(Debug)]
pub(crate) enum AddressedMessage {
    /// A lock has moved to holds of the process with this inbox.
    Handoff(InboxId, HandoffMessage),
    /// Another process has begun to wait for this key.
    Contended(InboxId, String),
    /// Holds were ended by force: a message to all processes.
    Forced(ForcedMessage),
}

#[derive(Debug)]
pub(crate) struct Lock {
    /// The holds with their depths: one holder, or the readers inside.
    pub(crate) fields: Vec<(HoldId, u32)>,
    /// The inbox that gets a message when another process begins to wait.
    pub(crate) contended_inbox: Option<InboxId>,
    pub(crate) token: u64,
    pub(crate) expires: Instant,
}

impl Default for State {
    fn default() -> Self {
        Self {
            locks: HashMap::default(),
            queues: HashMap::default(),
            waits: PublishedWaits::default(),
            clock: Clock::new(),
            next_sweep: Instant::now(),
            messages: Vec::new(),
        }
    }
}

/// Faults that can happen to a real server.
#[cfg(any(test, feature = "test-util"))]
impl State {
    pub(super) fn forget(&mut self) {
        *self = Self {
            // The clock goes on, so later tokens are greater (P11).
            clock: self.clock,
            ..Self::default()
        };
    }
}

impl State {
    /// Forgets what has expired. Reads check the expiry themselves, so this only limits the memory.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        // A sweep looks at everything, so it is rare.
        self.next_sweep = now + TOMBSTONE_LIFE / 2;
        self.locks.retain(|_, lock| now < lock.expires);
        self.queues.retain(|_, queue| {
            queue.prune(now);
            !queue.is_empty()
        });
        self.waits.sweep(self.clock.at(now));
    }

    /// The present time on the clock of the store.
    pub(crate) fn time(&self, now: Instant) -> StoreTime {
        self.clock.at(now)
    }

    /// The holds in a lock, by its name in the store.
    pub(crate) fn holds(&self, key: &str, now: Instant) -> Vec<HoldId> {
        let is_held = |lock: &&Lock| now < lock.expires;
        let lock = self.locks.get(key).filter(is_held);
        let fields = lock.map(|lock| &lock.fields[..]).unwrap_or_default();
        fields.iter().map(|(hold, _)| *hold).collect()
    }

    /// Notifies all processes of holds that were ended by force.
    pub(crate) fn notify_all(&mut self, message: ForcedMessage) {
        self.messages.push(AddressedMessage::Forced(message));
    }
}

impl Lock {
    pub(crate) fn has(&self, hold: HoldId) -> bool {
        self.fields.iter().any(|(other, _)| *other == hold)
    }

    /// Adds a reader, at depth 1.
    pub(super) fn insert_reader(&mut self, hold: HoldId) {
        if self.has(hold) {
            self.set_depth(hold, 1);
        } else {
            self.fields.push((hold, 1));
        }
    }

    /// Removes holds. Returns whether none is left.
    pub(crate) fn remove_holds(&mut self, holds: &[HoldId]) -> bool {
        self.fields.retain(|(hold, _)| !holds.contains(hold));
        self.fields.is_empty()
    }

    pub(crate) fn set_depth(&mut self, hold: HoldId, depth: u32) {
        let mut fields = self.fields.iter_mut();
        if let Some((_, stored)) = fields.find(|(other, _)| *other == hold) {
            *stored = depth;
        }
    }

    /// Makes the lease last at least `ttl` from now.
    pub(crate) fn lengthen(&mut self, now: Instant, ttl: Duration) {
        self.expires = self.expires.max(now + ttl);
    }
}

/// The waits of all owners, and the victims of cycles.
#[derive(Debug, Default)]
pub(crate) struct PublishedWaits {
    /// The records by the owner of an enclosing hold, and the wait.
    records: BTreeMap<(OwnerId, HoldId), ListedWait>,
    /// The victims, each behind the least wait of its cycle, with the ends of their claims.
    victims: BTreeMap<(HoldId, HoldId), StoreTime>,
}

impl PublishedWaits {
    /// Forgets what has expired.
    pub(super) fn sweep(&mut self, now: StoreTime) {
        self.records
            .retain(|_, seen| now < seen.stamp.after(seen.life));
        self.victims.retain(|_, end| now < *end);
    }

    pub(crate) fn publish(&mut self, owner: OwnerId, seen: ListedWait) {
        self.records.insert((owner, seen.wait.id), seen);
    }

    /// The waits that a hold encloses.
    pub(crate) fn live(&self, hold: HoldId, now: StoreTime) -> Vec<ListedWait> {
        let from_owner = self.records.range((hold.owner(), HoldId::LEAST)..);
        let of_owner = from_owner.take_while(|((owner, _), _)| *owner == hold.owner());
        let live = of_owner.map(|(_, seen)| seen).filter(|seen| {
            let is_alive = now < seen.stamp.after(seen.life);
            is_alive && seen.wait.is_enclosed_by(hold)
        });
        live.cloned().collect()
    }

    /// Makes a wait the victim of the cycle with this least wait until `until`, unless one of the others is the victim.
    pub(crate) fn claim(
        &mut self,
        least: HoldId,
        victim: HoldId,
        others: &[HoldId],
        now: StoreTime,
        until: StoreTime,
    ) -> bool {
        let is_victim = |wait: &HoldId| {
            let end = self.victims.get(&(least, *wait));
            end.is_some_and(|end| now < *end)
        };
        // Two walks that find the same cycle must choose the same victim, so the first claim counts.
        if is_victim(&victim) {
            return true;
        }
        if others.iter().any(is_victim) {
            return false;
        }
        self.victims.insert((least, victim), until);
        true
    }

    pub(crate) fn withdraw(&mut self, owner: OwnerId, wait: HoldId) {
        self.records.remove(&(owner, wait));
    }
}

/// The wall clock, which advances with the tokio clock: it stops when the tokio clock stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_micros: u64,
    /// The offset of the clock from the tokio clock. It begins at [`MAX_CLOCK_STEPS`], so that the clock can be set back.
    ahead: Duration,
    /// The instant at which the clock was last read for a token, and that token.
    last: (u64, u64),
}

impl Clock {
    pub(super) fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start: Instant::now(),
            // The instants are ahead of the tokio clock by the same time, so the sum is the time of the system.
            start_micros: micros(since_epoch.saturating_sub(MAX_CLOCK_STEPS)),
            ahead: MAX_CLOCK_STEPS,
            last: (0, 0),
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    /// The time of the clock at an instant.
    pub(crate) fn at(&self, now: Instant) -> StoreTime {
        let passed = micros(now.saturating_duration_since(self.start));
        let micros = self.start_micros.saturating_add(passed);
        StoreTime { micros }
    }

    /// The time, as a token. Two tokens are at least one microsecond apart, as on a server, even while the tokio clock
    /// is paused.
    pub(super) fn token(&mut self, now: StoreTime) -> u64 {
        let (read, given) = self.last;
        // Within this span the clock has not passed the last token. If it was set back further, its tokens are smaller,
        // as on a server.
        let token = if (read..=given).contains(&now.micros) {
            given.saturating_add(1)
        } else {
            now.micros
        };
        self.last = (now.micros, token);
        token
    }
}

/// Faults that can happen to the clock of a real server.
#[cfg(any(test, feature = "test-util"))]
impl Clock {
    pub(super) fn step_forward(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by).min(2 * MAX_CLOCK_STEPS);
    }

    pub(super) fn step_back(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_sub(by);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
