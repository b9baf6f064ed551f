//! Readers in the in-memory store, and who is let in. See `lua/parts/members.lua`, of which this has the names.

use std::time::Duration;

use tokio::time::Instant;

use super::super::line::{Process, Want};
use super::{Message, State};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::key::LockKey;
use crate::store::records::HandoffMessage;

/// The readers who ask, and the lease that they get without being told.
type Asking = (InboxId, Duration);

impl State {
    /// Takes a hold out of a lock, which is free when the last one has gone. Returns the token, if the hold was in.
    pub(crate) fn take_out(&mut self, key: &LockKey, hold: HoldId, now: Instant) -> Option<u64> {
        let lock = self.held(key, hold, now)?;
        let token = lock.token;
        if lock.end(&[hold]) {
            self.locks.remove(key);
        }
        Some(token)
    }

    /// A holder has left: the lock lasts as long as those inside, and who is first may enter.
    pub(crate) fn settle_and_admit(&mut self, key: &LockKey, before: u64, now: Instant) {
        if self.tidy(key, now) {
            self.settle(key, now);
            self.admit(key, None, None, now);
        } else if self.live_lock(key, now).is_none() {
            self.admit(key, Some(before), None, now);
        }
    }

    /// The reader whose lease ends last; `None` unless the lock is shared.
    pub(crate) fn latest(&mut self, key: &LockKey, now: Instant) -> Option<(HoldId, Instant)> {
        let (hold, lasts) = self.line(key, now, |line| line.latest())?;
        self.held(key, hold, now).map(|_| (hold, lasts))
    }

    /// Removes the readers whose leases have ended. Returns whether the lock is shared.
    pub(crate) fn tidy(&mut self, key: &LockKey, now: Instant) -> bool {
        for hold in self.line(key, now, |line| line.take_dead(now)) {
            self.take_out(key, hold, now);
        }
        self.latest(key, now).is_some()
    }

    pub(crate) fn settle(&mut self, key: &LockKey, now: Instant) {
        if let Some((hold, lasts)) = self.latest(key, now)
            && let Some(lock) = self.held(key, hold, now)
        {
            lock.expires = lasts;
        }
    }

    pub(crate) fn keep_all(
        &mut self,
        key: &LockKey,
        holds: &[HoldId],
        lease: Duration,
        now: Instant,
    ) {
        if let Some(lock) = self.live_lock(key, now) {
            lock.lengthen(now, lease);
        }
        self.line(key, now, |line| {
            holds.iter().for_each(|hold| line.keep(*hold, now + lease));
        });
    }

    /// Readers enter a lock that is shared, or free: then its token is greater than the one before. Returns the token.
    pub(crate) fn enter(
        &mut self,
        key: &LockKey,
        holds: &[HoldId],
        lease: Duration,
        before: Option<u64>,
        now: Instant,
    ) -> u64 {
        let token = if let Some(lock) = self.live_lock(key, now) {
            holds.iter().for_each(|hold| lock.put(*hold));
            lock.token
        } else {
            self.open(key, holds, (lease, None), before, now)
        };
        self.keep_all(key, holds, lease, now);
        token
    }

    /// Whether the first process of the line enters a lock that is free or shared.
    fn may_enter(&mut self, key: &LockKey, process: &Process, now: Instant) -> bool {
        let is_free = self.live_lock(key, now).is_none();
        is_free
            || match process.want {
                Want::Alone { .. } => false,
                Want::Shared { limit } => self.fits(key, process.holds.len(), limit, now),
            }
    }

    pub(crate) fn fits(
        &mut self,
        key: &LockKey,
        count: usize,
        limit: Option<u32>,
        now: Instant,
    ) -> bool {
        let inside = self.live_lock(key, now).map_or(0, |lock| lock.fields.len());
        limit.is_none_or(|limit| (inside + count) as u64 <= limit.into())
    }

    /// Which of these holds are in the lock, and which are not.
    pub(crate) fn within(
        &mut self,
        key: &LockKey,
        holds: &[HoldId],
        now: Instant,
    ) -> (Vec<HoldId>, Vec<HoldId>) {
        let lock = self.live_lock(key, now);
        let is_in = |hold: &HoldId| lock.as_ref().is_some_and(|lock| lock.has(*hold));
        holds.iter().partition(|hold| is_in(hold))
    }

    /// The first live process in the line; readers whose lock is gone are removed on the way.
    pub(crate) fn head(&mut self, key: &LockKey, now: Instant) -> Option<Process> {
        let is_free = self.live_lock(key, now).is_none();
        self.line(key, now, |line| {
            if is_free {
                line.forget_readers();
            }
            line.head(now)
        })
    }

    /// Lets in who is first in the line of a lock that is free or shared: all readers that are first, or one process
    /// that wants a free lock for itself alone. Returns the longest lease that was given.
    pub(crate) fn admit(
        &mut self,
        key: &LockKey,
        before: Option<u64>,
        mine: Option<Asking>,
        now: Instant,
    ) -> Option<Duration> {
        let mut longest = None;
        while let Some(process) = self.head(key, now) {
            if !self.may_enter(key, &process, now) {
                break;
            }
            let Process {
                inbox, holds, want, ..
            } = process;
            self.line(key, now, |line| line.leave(inbox));
            let own = mine.filter(|(own, _)| *own == inbox);
            let lease = own.map_or(process.grant, |(_, ttl)| ttl);
            let token = match want {
                Want::Alone { tells } => {
                    let told = tells.then_some(inbox);
                    self.open(key, &holds, (lease, told), before, now)
                }
                Want::Shared { .. } => self.enter(key, &holds, lease, before, now),
            };
            longest = longest.max(Some(lease));
            if own.is_none() {
                let message = HandoffMessage {
                    key: key.as_str().to_owned(),
                    holds,
                    token: FencingToken(token),
                    at: self.clock.at(now),
                    lease,
                };
                self.messages.push(Message::Handoff(inbox, message));
            }
            if matches!(want, Want::Alone { .. }) {
                break;
            }
        }
        longest
    }
}
