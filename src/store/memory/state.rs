//! What the in-memory store remembers, and its operations on it.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use super::queue::Queue;
use crate::{
    base::{
        id::{FencingToken, HoldId, InboxId},
        key::LockKey,
    },
    store::{
        AcquireReply, AcquireRequest, DepthChange, HandoffMessage, Presence, ReleaseReply,
        ReleaseRequest, Renewal, Seen, Snapshot, StoreTime, TOMBSTONE_LIFE, meta_life,
    },
};

mod moves;

/// The kinds of keys that a lock has in Redis.
#[derive(Debug)]
pub(super) struct State {
    locks: HashMap<LockKey, Lock>,
    metas: HashMap<LockKey, Meta>,
    queues: HashMap<LockKey, Queue>,
    tombstones: HashMap<(LockKey, HoldId), Instant>,
    clock: Clock,
    next_sweep: Instant,
    /// What is to be sent to which inbox once the operation is over.
    messages: Vec<(InboxId, HandoffMessage)>,
}

#[derive(Debug)]
struct Lock {
    holders: BTreeMap<HoldId, u32>,
    expires: Instant,
}

/// Outlives every lease of its lock.
#[derive(Debug)]
struct Meta {
    token: u64,
    hold: HoldId,
    seq: u64,
    expires: Instant,
}

/// The wall clock, carried on by the tokio clock, so that it stands still when tokio's does.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    start_micros: u64,
    /// How far it was set ahead of the tokio clock.
    ahead: Duration,
}

impl Clock {
    fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start: Instant::now(),
            start_micros: micros(since_epoch),
            ahead: Duration::ZERO,
        }
    }

    fn at(&self, now: Instant) -> StoreTime {
        let passed = micros(now.saturating_duration_since(self.start));
        let micros = self.start_micros.saturating_add(passed);
        StoreTime { micros }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Default for State {
    fn default() -> Self {
        Self {
            locks: HashMap::new(),
            metas: HashMap::new(),
            queues: HashMap::new(),
            tombstones: HashMap::new(),
            clock: Clock::new(),
            next_sweep: Instant::now(),
            messages: Vec::new(),
        }
    }
}

#[cfg(test)]
impl State {
    pub(super) fn forget(&mut self) {
        *self = Self {
            clock: self.clock,
            ..Self::default()
        };
    }

    pub(super) fn set_clock_ahead(&mut self, by: Duration) {
        self.clock.ahead = by;
    }
}

impl State {
    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.clock.ahead
    }

    /// Forgets what has expired. Reads check expiry themselves; this only bounds the memory.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + TOMBSTONE_LIFE / 2;
        self.locks.retain(|_, lock| now < lock.expires);
        self.metas.retain(|_, meta| now < meta.expires);
        self.queues.retain(|_, queue| !queue.is_over(now));
        self.tombstones.retain(|_, expires| now < *expires);
    }

    pub(super) fn take_messages(&mut self) -> Vec<(InboxId, HandoffMessage)> {
        std::mem::take(&mut self.messages)
    }

    fn live_lock(&mut self, key: &LockKey, now: Instant) -> Option<&mut Lock> {
        self.locks.get_mut(key).filter(|lock| now < lock.expires)
    }

    fn live_meta(&self, key: &LockKey, now: Instant) -> Option<&Meta> {
        self.metas.get(key).filter(|meta| now < meta.expires)
    }

    /// The lock and its meta, if the hold is in it.
    fn held(
        &mut self,
        key: &LockKey,
        hold: HoldId,
        now: Instant,
    ) -> Option<(&mut Lock, &mut Meta)> {
        let lock = self.locks.get_mut(key).filter(|lock| now < lock.expires)?;
        let meta = self.metas.get_mut(key)?;
        lock.holders.contains_key(&hold).then_some((lock, meta))
    }

    pub(super) fn acquire(
        &mut self,
        key: &LockKey,
        request: AcquireRequest,
        now: Instant,
    ) -> AcquireReply {
        let AcquireRequest { hold, ttl, entry } = request;
        let tombstone = self.tombstones.get(&(key.clone(), hold));
        if tombstone.is_some_and(|expires| now < *expires) {
            return AcquireReply::Ended;
        }
        let at = self.clock.at(now);
        if let Some((lock, meta)) = self.held(key, hold, now) {
            lengthen(lock, meta, now, ttl);
            return AcquireReply::Held {
                token: FencingToken(meta.token),
                lease: lock.expires - now,
                at,
            };
        }
        let mut ahead = None;
        let mut remaining = self.live_lock(key, now).map(|lock| lock.expires - now);
        if remaining.is_none() {
            let inbox = entry.map(|entry| entry.inbox);
            ahead = self.queue(key, now, |queue| queue.head(now));
            if ahead.is_none_or(|ahead| Some(ahead.inbox) == inbox) {
                if let Some(ahead) = ahead {
                    self.queue(key, now, |queue| queue.leave(ahead.inbox));
                }
                return self.take(key, hold, ttl, meta_life(ttl), now);
            }
        }
        if let Some(entry) = entry {
            self.queue(key, now, |queue| queue.stand(now, hold, ttl, entry));
        }
        if let Some(ahead) = ahead {
            remaining = Some(self.grant(key, ahead, now));
        }
        AcquireReply::Busy { remaining, now: at }
    }

    pub(super) fn depth(&mut self, key: &LockKey, change: DepthChange, now: Instant) -> Presence {
        let DepthChange {
            hold,
            target,
            seq,
            ttl,
            lengthen: longer,
        } = change;
        let Some((lock, meta)) = self.held(key, hold, now) else {
            return Presence::Gone;
        };
        if seq > meta.seq {
            meta.seq = seq;
            lock.holders.insert(hold, target);
            if longer {
                lengthen(lock, meta, now, ttl);
            }
        }
        Presence::Present
    }

    pub(super) fn renew(&mut self, key: &LockKey, renewal: Renewal, now: Instant) -> Presence {
        let Some((lock, meta)) = self.held(key, renewal.hold, now) else {
            return Presence::Gone;
        };
        lock.expires = lock.expires.max(now + renewal.ttl);
        if renewal.keep_meta {
            meta.expires = meta.expires.max(now + meta_life(renewal.ttl));
        }
        Presence::Present
    }

    pub(super) fn release(
        &mut self,
        key: &LockKey,
        request: ReleaseRequest,
        now: Instant,
    ) -> ReleaseReply {
        let ReleaseRequest {
            hold,
            inbox,
            tombstone,
            successor,
        } = request;
        if tombstone {
            self.tombstones
                .insert((key.clone(), hold), now + TOMBSTONE_LIFE);
        }
        let Some((lock, _)) = self.held(key, hold, now) else {
            return ReleaseReply {
                presence: Presence::Gone,
                successor: self.give_up(key, hold, inbox, successor, now),
            };
        };
        lock.holders.remove(&hold);
        let is_free = lock.holders.is_empty();
        if is_free {
            self.locks.remove(key);
        }
        ReleaseReply {
            presence: Presence::Present,
            successor: is_free
                .then(|| self.move_on(key, inbox, successor, now))
                .flatten(),
        }
    }

    pub(super) fn inspect(&mut self, key: &LockKey, now: Instant) -> Option<Snapshot> {
        let meta = self.live_meta(key, now).map(|meta| (meta.token, meta.hold));
        let waiting = self.queue(key, now, |queue| queue.waiting(now));
        let lock = self.live_lock(key, now)?;
        let token = meta.filter(|(_, hold)| lock.holders.contains_key(hold));
        Some(Snapshot {
            holders: lock
                .holders
                .iter()
                .map(|(id, depth)| (id.to_string().into_bytes(), u64::from(*depth)))
                .collect(),
            remaining: Some(lock.expires - now),
            token: token.map(|(token, _)| FencingToken(token)),
            waiting,
        })
    }

    pub(super) fn force_release(&mut self, key: &LockKey, seen: &Seen, now: Instant) -> bool {
        let still = self.inspect(key, now).is_some_and(|snapshot| {
            snapshot.token == seen.token
                && snapshot
                    .holders
                    .iter()
                    .any(|(field, _)| *field == seen.field)
        });
        if still {
            self.locks.remove(key);
            if let Some(ahead) = self.queue(key, now, |queue| queue.head(now)) {
                self.grant(key, ahead, now);
            }
        }
        still
    }
}

/// Makes the lease last at least `ttl` from now, and the meta longer still. Neither is shortened.
fn lengthen(lock: &mut Lock, meta: &mut Meta, now: Instant, ttl: Duration) {
    if lock.expires < now + ttl {
        lock.expires = now + ttl;
        meta.expires = now + meta_life(ttl);
    }
}
