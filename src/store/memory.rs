//! Locks in the memory of this process, on the tokio clock: the same answers as from Redis.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::watch, time::Instant};

use super::{
    Acquired, Answer, Claim, DepthChange, Ending, Presence, Seen, Snapshot, Store, TOMBSTONE_LIFE,
    meta_life,
};
use crate::{
    error::StoreError,
    id::{FencingToken, HoldId},
    key::LockKey,
    mutex::Mutex,
};

/// The in-memory store.
pub(crate) struct MemoryStore {
    state: Arc<Mutex<State>>,
    /// Never changes: there is no connection to lose.
    outages: watch::Sender<u64>,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new())),
            outages: watch::Sender::new(0),
        }
    }

    /// Runs `step` as one atomic operation when the answer is first polled.
    fn execute<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut State, Instant) -> T + Send + 'static,
    ) -> Answer<T> {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            // Nothing here ever waits, so a loop around a lock would starve its neighbours.
            tokio::task::coop::consume_budget().await;
            let now = Instant::now();
            let mut state = state.lock();
            state.sweep(now);
            Ok::<_, StoreError>(step(&mut state, now))
        })
    }
}

impl Store for MemoryStore {
    fn acquire(&self, key: &LockKey, claim: Claim) -> Answer<Acquired> {
        let key = key.clone();
        self.execute(move |state, now| state.acquire(key, claim, now))
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.depth(&key, change, now))
    }

    fn renew(
        &self,
        key: &LockKey,
        hold: HoldId,
        ttl: Duration,
        _patience: Duration,
    ) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.renew(&key, hold, ttl, now))
    }

    fn release(&self, key: &LockKey, ending: Ending) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.release(key, ending, now))
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let key = key.clone();
        self.execute(move |state, now| state.inspect(&key, now))
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        let key = key.clone();
        self.execute(move |state, now| state.force_release(&key, &seen, now))
    }

    fn outages(&self) -> watch::Receiver<u64> {
        self.outages.subscribe()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

/// The three kinds of keys that a lock has in Redis.
#[derive(Debug)]
struct State {
    locks: HashMap<LockKey, Lock>,
    metas: HashMap<LockKey, Meta>,
    tombstones: HashMap<(LockKey, HoldId), Instant>,
    clock: Clock,
    next_sweep: Instant,
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
#[derive(Debug)]
struct Clock {
    start: Instant,
    start_micros: u64,
}

impl Clock {
    fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start: Instant::now(),
            start_micros: micros(since_epoch),
        }
    }

    fn micros(&self, now: Instant) -> u64 {
        self.start_micros
            .saturating_add(micros(now.saturating_duration_since(self.start)))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl State {
    fn new() -> Self {
        Self {
            locks: HashMap::new(),
            metas: HashMap::new(),
            tombstones: HashMap::new(),
            clock: Clock::new(),
            next_sweep: Instant::now(),
        }
    }

    /// Forgets what has expired. Reads check expiry themselves; this only bounds the memory.
    fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + TOMBSTONE_LIFE / 2;
        self.locks.retain(|_, lock| now < lock.expires);
        self.metas.retain(|_, meta| now < meta.expires);
        self.tombstones.retain(|_, expires| now < *expires);
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

    fn acquire(&mut self, key: LockKey, claim: Claim, now: Instant) -> Acquired {
        let Claim { hold, ttl } = claim;
        let tombstone = self.tombstones.get(&(key.clone(), hold));
        if tombstone.is_some_and(|expires| now < *expires) {
            return Acquired::Ended;
        }
        if let Some((lock, meta)) = self.held(&key, hold, now) {
            lengthen(lock, meta, now, ttl);
            return Acquired::Held {
                token: FencingToken(meta.token),
                lease: lock.expires - now,
            };
        }
        if let Some(lock) = self.live_lock(&key, now) {
            return Acquired::Busy {
                remaining: Some(lock.expires - now),
            };
        }
        let clock = self.clock.micros(now);
        let token = self
            .live_meta(&key, now)
            .map_or(clock, |meta| clock.max(meta.token.saturating_add(1)));
        let meta = Meta {
            token,
            hold,
            seq: 0,
            expires: now + meta_life(ttl),
        };
        let lock = Lock {
            holders: BTreeMap::from([(hold, 1)]),
            expires: now + ttl,
        };
        self.metas.insert(key.clone(), meta);
        self.locks.insert(key, lock);
        Acquired::Held {
            token: FencingToken(token),
            lease: ttl,
        }
    }

    fn depth(&mut self, key: &LockKey, change: DepthChange, now: Instant) -> Presence {
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

    fn renew(&mut self, key: &LockKey, hold: HoldId, ttl: Duration, now: Instant) -> Presence {
        let Some((lock, meta)) = self.held(key, hold, now) else {
            return Presence::Gone;
        };
        lengthen(lock, meta, now, ttl);
        Presence::Present
    }

    fn release(&mut self, key: LockKey, ending: Ending, now: Instant) -> Presence {
        let Ending { hold, tombstone } = ending;
        let mut presence = Presence::Gone;
        if let Some((lock, _)) = self.held(&key, hold, now) {
            presence = Presence::Present;
            lock.holders.remove(&hold);
            if lock.holders.is_empty() {
                self.locks.remove(&key);
            }
        }
        if tombstone {
            self.tombstones.insert((key, hold), now + TOMBSTONE_LIFE);
        }
        presence
    }

    fn inspect(&mut self, key: &LockKey, now: Instant) -> Option<Snapshot> {
        let meta = self.live_meta(key, now).map(|meta| (meta.token, meta.hold));
        let lock = self.live_lock(key, now)?;
        let token = meta.filter(|(_, hold)| lock.holders.contains_key(hold));
        Some(Snapshot {
            holders: lock
                .holders
                .iter()
                .map(|(id, depth)| (id.to_string(), u64::from(*depth)))
                .collect(),
            remaining: Some(lock.expires - now),
            token: token.map(|(token, _)| FencingToken(token)),
        })
    }

    fn force_release(&mut self, key: &LockKey, seen: &Seen, now: Instant) -> bool {
        let still = self.inspect(key, now).is_some_and(|snapshot| {
            snapshot.token == seen.token
                && snapshot
                    .holders
                    .iter()
                    .any(|(field, _)| *field == seen.field)
        });
        if still {
            self.locks.remove(key);
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
