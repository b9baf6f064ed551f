//! What the in-memory store remembers, and its operations on it.

use std::{collections::HashMap, time::Duration};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::{
    clock::Clock,
    line::{Line, Want},
    waits::PublishedWaits,
};
use crate::{
    base::{
        id::{FencingToken, HoldId, InboxId},
        key::LockKey,
        mode::Mode,
    },
    store::{
        AcquireReply, AcquireRequest, DepthChange, ForcedMessage, HandoffMessage, Presence,
        ReleaseReply, ReleaseRequest, Renewal, StoreTime, TOMBSTONE_LIFE,
    },
};

mod looking;
mod moves;
mod several;
mod sharing;
mod surveying;

/// The kinds of keys that a lock has in Redis.
#[derive(Debug)]
pub(super) struct State {
    locks: HashMap<LockKey, Lock, RandomState>,
    lines: HashMap<LockKey, Line, RandomState>,
    pub(super) waits: PublishedWaits,
    clock: Clock,
    next_sweep: Instant,
    /// What is to be sent once the operation is over.
    messages: Vec<Message>,
}

#[derive(Debug)]
pub(super) enum Message {
    /// A lock has moved to holds of the process with this inbox.
    Handoff(InboxId, HandoffMessage),
    /// Another process has come to wait for this key.
    Contended(InboxId, String),
    /// To all processes.
    Forced(ForcedMessage),
}

#[derive(Debug)]
struct Lock {
    /// The holds with their depths: one, or those of the readers inside.
    fields: Vec<(HoldId, u32)>,
    /// Which inbox is to be told that another process has come to wait.
    told: Option<InboxId>,
    token: u64,
    expires: Instant,
    /// Whether it outlives its hold, whose requests do not find it.
    is_kept: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            locks: HashMap::default(),
            lines: HashMap::default(),
            waits: PublishedWaits::default(),
            clock: Clock::new(),
            next_sweep: Instant::now(),
            messages: Vec::new(),
        }
    }
}

/// What can happen to a real server.
#[cfg(any(test, feature = "test-util"))]
impl State {
    pub(super) fn forget(&mut self) {
        *self = Self {
            clock: self.clock,
            ..Self::default()
        };
    }

    pub(super) fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}

impl State {
    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Forgets what has expired. Reads check expiry themselves; this only bounds the memory.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + TOMBSTONE_LIFE / 2;
        self.locks.retain(|_, lock| now < lock.expires);
        self.lines.retain(|_, line| {
            line.prune(now);
            !line.is_empty()
        });
        self.waits.sweep(self.clock.at(now));
    }

    /// What the clock of the store shows then.
    pub(super) fn time(&self, now: Instant) -> StoreTime {
        self.clock.at(now)
    }

    /// The holds in a lock, by its name in the store.
    pub(super) fn holds(&self, key: &str, now: Instant) -> Vec<HoldId> {
        let is_held = |lock: &&Lock| now < lock.expires && !lock.is_kept;
        let lock = self.locks.get(key).filter(is_held);
        let fields = lock.map(|lock| &lock.fields[..]).unwrap_or_default();
        fields.iter().map(|(hold, _)| *hold).collect()
    }

    pub(super) fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// The lock, unless it is free.
    fn live_lock(&mut self, key: &LockKey, now: Instant) -> Option<&mut Lock> {
        self.locks.get_mut(key).filter(|lock| now < lock.expires)
    }

    /// The lock, if the hold is in it.
    fn held(&mut self, key: &LockKey, hold: HoldId, now: Instant) -> Option<&mut Lock> {
        self.live_lock(key, now).filter(|lock| lock.has(hold))
    }

    pub(super) fn acquire(
        &mut self,
        key: &LockKey,
        request: AcquireRequest,
        now: Instant,
    ) -> AcquireReply {
        let AcquireRequest { hold, ttl, entry } = request;
        if self.line(key, now, |line| line.is_buried(hold)) {
            return AcquireReply::Ended;
        }
        let at = self.clock.at(now);
        let is_shared = self.tidy(key, now);
        let stands = self.line(key, now, |line| line.stands());
        let told = entry.filter(|entry| entry.tells).map(|entry| entry.inbox);
        if let Some(lock) = self.held(key, hold, now) {
            lock.lengthen(now, ttl);
            return AcquireReply::Held {
                token: FencingToken(lock.token),
                lease: lock.expires - now,
                at,
                is_contended: true,
            };
        }
        let mut ahead = None;
        let mut remaining = self.live_lock(key, now).map(|lock| lock.expires - now);
        if remaining.is_none() {
            let inbox = entry.map(|entry| entry.inbox);
            ahead = self.head(key, now).map(|ahead| ahead.inbox);
            if ahead.is_none_or(|ahead| Some(ahead) == inbox) {
                if let Some(ahead) = ahead {
                    self.line(key, now, |line| line.leave(ahead));
                }
                return self.take(key, hold, (ttl, told), None, (stands, now));
            }
        }
        if let Some(entry) = entry {
            let holder = self.live_lock(key, now).and_then(|lock| lock.told);
            let want = Want::Alone { tells: entry.tells };
            let is_first = self.line(key, now, |line| {
                line.stand(now, vec![hold], want, entry, holder)
            });
            self.tell_holder(key, holder, is_first, entry.inbox);
        }
        if ahead.is_some() || is_shared {
            remaining = remaining.max(self.admit(key, None, None, now));
        }
        AcquireReply::Busy { remaining, now: at }
    }

    pub(super) fn depth(&mut self, key: &LockKey, change: DepthChange, now: Instant) -> Presence {
        let DepthChange {
            hold,
            target,
            mode,
            seq,
            ttl,
            lengthen: longer,
        } = change;
        if self.held(key, hold, now).is_none() {
            return Presence::Gone;
        }
        if self.line(key, now, |line| line.changes(now, hold, seq))
            && let Some(lock) = self.held(key, hold, now)
        {
            lock.set_depth(hold, target);
            if longer {
                lock.lengthen(now, ttl);
                if mode == Mode::Shared && self.line(key, now, |line| line.reader(hold).is_some()) {
                    self.line(key, now, |line| line.keep(hold, now + ttl));
                }
            }
        }
        Presence::Present
    }

    pub(super) fn renew(&mut self, key: &LockKey, renewal: Renewal, now: Instant) -> Presence {
        let Some(lock) = self.held(key, renewal.hold, now) else {
            return Presence::Gone;
        };
        lock.lengthen(now, renewal.ttl);
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
            nested,
            successor,
            min_hold,
            ..
        } = request;
        if let Some(min_hold) = min_hold
            && self.retain(key, request, min_hold, now)
        {
            return ReleaseReply {
                presence: Presence::Present,
                successor: None,
            };
        }
        let token = self.held(key, hold, now).map(|lock| lock.token);
        if token.is_some() {
            self.locks.remove(key);
        }
        // What the short way of the script does not see to.
        let is_general = tombstone || nested || self.line(key, now, |line| line.stands());
        if tombstone {
            self.line(key, now, |line| line.bury(now, hold));
        }
        if nested {
            self.line(key, now, |line| line.forget_changes(hold));
        }
        let inbox = (!request.is_short()).then_some(inbox);
        match token {
            Some(token) => ReleaseReply {
                presence: Presence::Present,
                successor: self.move_on(key, inbox, successor, token, (is_general, now)),
            },
            None => ReleaseReply {
                presence: Presence::Gone,
                successor: inbox.and_then(|inbox| self.give_up(key, hold, inbox, successor, now)),
            },
        }
    }
}

impl Lock {
    fn has(&self, hold: HoldId) -> bool {
        !self.is_kept && self.names(hold)
    }

    /// Whether the hold is in it, or was.
    fn names(&self, hold: HoldId) -> bool {
        self.fields.iter().any(|(other, _)| *other == hold)
    }

    /// The holds as they are seen, with their depths.
    fn shown(&self) -> impl Iterator<Item = (HoldId, Vec<u8>, u32)> {
        let shown = |&(hold, depth): &(HoldId, u32)| {
            let field = if self.is_kept {
                hold.kept()
            } else {
                hold.to_string()
            };
            (hold, field.into_bytes(), depth)
        };
        self.fields.iter().map(shown)
    }

    /// One more reader, at depth 1.
    fn put(&mut self, hold: HoldId) {
        if self.has(hold) {
            self.set_depth(hold, 1);
        } else {
            self.fields.push((hold, 1));
        }
    }

    fn set_depth(&mut self, hold: HoldId, depth: u32) {
        let mut fields = self.fields.iter_mut();
        if let Some((_, stored)) = fields.find(|(other, _)| *other == hold) {
            *stored = depth;
        }
    }

    /// Makes the lease last at least `ttl` from now.
    fn lengthen(&mut self, now: Instant, ttl: Duration) {
        self.expires = self.expires.max(now + ttl);
    }
}
